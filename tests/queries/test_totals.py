"""What reduces the rows of other analyses; sums by hand are in tests/cases/reductions.case."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from given_rows import analysis_of, rows_of

import tracekit
from tracekit.analysis.breakdown import TOTALS
from tracekit.errors import UsageError

REPO = Path(__file__).resolve().parents[2]
Opened = Callable[[Path], tracekit.Trace]


def test_no_rows_have_no_total() -> None:
    for name, totals in TOTALS.items():
        window = rows_of("timeline", {"window_ns": 5})
        assert analysis_of(totals, rows_of(name), window).rows == []


def test_together_they_say_what_each_says_alone(opened: Opened) -> None:
    trace = opened(REPO / "sample_traces" / "pretrain_R+Z3")
    found = trace.breakdown()
    for name, totals in TOTALS.items():
        if name in found:
            assert found[totals] == trace.query(totals)


@pytest.mark.parametrize("run", ["pretrain_R+Z3", "serve_vllm"])
def test_totals_are_the_sums_of_the_rows(opened: Opened, run: str) -> None:
    """Every column that both have and that counts or measures is the sum over the rows."""
    trace = opened(REPO / "sample_traces" / run)
    found = trace.breakdown()
    keys = {"kernel_classes": ["class", "kind"], "phases": ["phase"], "idle_causes": ["cause"]}
    for name, key in keys.items():
        totals = found[TOTALS[name]]
        summed = [
            column
            for column in totals.column_names
            if column.endswith(("_ns", "_count")) and column in found[name].column_names
        ]
        assert summed
        sums: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        for row in found[name].to_dicts():
            sums[tuple(row[column] for column in key)].update({c: row[c] for c in summed})
        assert sums == {
            tuple(row[column] for column in key): Counter({c: row[c] for c in summed})
            for row in totals.to_dicts()
        }
    for name, column in (("kernel_classes", "wall_pct"), ("idle_causes", "idle_pct")):
        assert 0 < sum(found[TOTALS[name]].column(column)) < 100
    assert sum(found["phase_totals"].column("span_pct")) == pytest.approx(100)


@pytest.mark.parametrize("run", ["h200_finetune_L", "pretrain_Naive", "serve_vllm"])
def test_parts_of_a_decoder_add_up(opened: Opened, run: str) -> None:
    trace = opened(REPO / "sample_traces" / run)
    rows = trace.query("role_totals").to_dicts()
    assert sum(row["wall_ns"] for row in rows) == sum(trace.query("timeline").column("busy_ns"))
    steps = trace.query("step_totals").to_dicts()
    if steps:
        in_steps = sum(row["step_wall_ns"] for row in rows)
        assert in_steps == pytest.approx(steps[0]["step_work_ns"])
    else:
        assert {row["step_wall_ns"] for row in rows} == {None}


def test_an_analysis_may_call_another_with_parameters(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "most.sql").write_text(
        "-- How many kernels?\n--\n-- Kind:    analysis\n-- Scope:   run\n"
        "-- Requires: kernels()\n-- Params:\n--   most  BIGINT = 1  kernels of a device\n"
        "-- Columns:\n--   n  BIGINT  rows\n\n"
        "SELECT count(*) AS n FROM kernels(p_limit := $most)\n",
        encoding="utf-8",
    )
    with tracekit.open(REPO / "sample_traces" / "pretrain_R+Z3", queries=tmp_path) as trace:
        assert trace.query("most").rows == [(2,)]
        assert trace.query("most", most=3).rows == [(6,)]
        with pytest.raises(UsageError, match="most"):
            trace.query("most", most="many")
