"""What the noise of a comparison says in words."""

from __future__ import annotations

from typing import Any

import pytest

from tracekit.analysis.result import Column, Result
from tracekit.render.sections import SECTIONS

_WHOLE = {
    **dict.fromkeys(("base_outside_pct", "new_outside_pct"), 0.0),
    "base": "a",
    "new": "b",
    "per": "step",
    "sample": "step",
    "verdict": "slower",
    "base_ns": 100,
    "new_ns": 200,
    "delta_ns": 100,
    "delta_pct": 100.0,
    "matched_pct": 99.0,
    "base_unit_count": 8,
    "new_unit_count": 8,
    "base_run_count": 1,
    "new_run_count": 1,
    "more_count": None,
    "within_pct": None,
    "clock_pct": None,
}
_NOISE = {
    "measure": "step",
    "base_count": 8,
    "new_count": 8,
    "verdict": "slower",
    "base_median_ns": 100e6,
    "new_median_ns": 200e6,
    "difference_pct": 100.0,
    "low_pct": 50.0,
    "high_pct": 150.0,
    "base_outliers": [],
    "correlation": 0.0,
    "new_outliers": [],
    **dict.fromkeys(("base_warm_up_count", "new_warm_up_count"), 0),
    **dict.fromkeys(("base_drift_pct", "new_drift_pct")),
}


def _table(name: str, *rows: dict[str, Any]) -> Result:
    columns = tuple(Column(key, "VARCHAR") for key in (rows[0] if rows else {"effect": 0}))
    return Result(name, columns, [tuple(row.values()) for row in rows])


def _told(whole: dict[str, Any] | None = None, **noise: Any) -> list[str]:
    data = {
        "comparison": _table("comparison", _WHOLE | (whole or {})),
        "comparison_noise": _table("comparison_noise", _NOISE | noise),
        "comparison_effects": _table("comparison_effects"),
    }
    return [line.plain for line in SECTIONS["comparison"].lines(data, 100, full=False)]


@pytest.mark.parametrize(
    ("noise", "verdict"),
    [
        ({}, "slower"),
        ({"low_pct": -3.0}, "slower by ranks"),
        ({"low_pct": -3.0, "verdict": "inconclusive"}, "inconclusive"),
        ({"low_pct": None, "high_pct": None, "verdict": None}, "–"),
    ],
)
def test_what_decided_is_said(noise: dict[str, Any], verdict: str) -> None:
    (line,) = [one for one in _told(**noise) if " × " in one and "count" not in one]
    assert line.rstrip().endswith(verdict)


def test_one_run_on_a_side_does_not_hold_the_noise_of_runs() -> None:
    told = "one run on a side"
    assert any(told in line for line in _told())
    assert not any(told in line for line in _told(verdict="inconclusive"))
    assert not any(told in line for line in _told({"base_run_count": 3, "new_run_count": 3}))


@pytest.mark.parametrize(
    ("measure", "count", "text"),
    [
        ("step", 1, "    base: the first is a warm-up: --skip 1"),
        ("step", 2, "    base: the first 2 are a warm-up: --skip 2"),
        ("plain step", 2, "    base: the first 2 are a warm-up"),
    ],
)
def test_a_warm_up_is_said(measure: str, count: int, text: str) -> None:
    assert text in _told(measure=measure, base_warm_up_count=count, base_outliers=[0, 1][:count])


def test_dependent_measurements_are_said() -> None:
    told = "    each is like the one before (correlation 0.62): so many say less"
    assert told in _told(correlation=0.62)
    assert told not in _told()


def test_sides_that_have_next_to_nothing_in_common_are_said() -> None:
    assert (
        "only 2.0 % of device time matched: hardly the same work" in _told({"matched_pct": 2.0})[2]
    )
    assert "only" not in _told()[2]
