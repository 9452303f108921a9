"""What was measured on both sides, and whether it differs by more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from tracekit.comparison.cells import Side
from tracekit.comparison.noise import Difference, compare_series, least_count
from tracekit.comparison.trends import drift_pct, outliers, warm_up_count

if TYPE_CHECKING:
    from tracekit.trace import Trace

PLAIN_STEP = "plain step"
"""The steps that ran without profiler and ranges, as the manifests of runs have them."""


@dataclass(frozen=True, slots=True)
class Trend:
    """What the series of one side shows: places from 0, a drift in percent of the median."""

    warm_up_count: int
    outliers: Sequence[int]
    drift_pct: float | None


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing measured on both sides, in ns."""

    name: str
    base: Sequence[float]
    new: Sequence[float]
    difference: Difference
    base_trend: Trend
    new_trend: Trend


def measure(
    name: str,
    base: Sequence[float],
    new: Sequence[float],
    *,
    margin_pct: float,
    is_in_order: bool = True,
) -> Measure:
    """Compare one series of each side.

    Args:
        name: what was measured.
        base: the measurements of the base, ns.
        new: those of the new side, ns.
        margin_pct: a difference up to this share is none, percent.
        is_in_order: whether measurements follow one another in time.
    """
    difference = compare_series(base, new, margin_pct=margin_pct, is_in_order=is_in_order)
    return Measure(name, base, new, difference, _trend(base), _trend(new))


def measures_of(
    base: Side, new: Side, plain: tuple[Sequence[float], Sequence[float]], margin_pct: float
) -> list[Measure]:
    """Return all that was measured on both sides, what decides first.

    One number of each run decides where both sides have enough runs to; else steps do.

    Args:
        base: the one side.
        new: the other.
        plain: the steps without profiler of both, ns.
        margin_pct: a difference up to this share is none, percent.
    """
    found = [
        measure(
            _unit_name(base), base.series(base.cells), new.series(new.cells), margin_pct=margin_pct
        )
    ]
    if base.run_count > 1 and new.run_count > 1 and base.per != "window":
        of_runs = measure(
            "run", _by_run(base), _by_run(new), margin_pct=margin_pct, is_in_order=False
        )
        is_enough = min(base.run_count, new.run_count) >= least_count()
        found.insert(0 if is_enough else 1, of_runs)
    if plain[0] and plain[1]:
        found.append(measure(PLAIN_STEP, *plain, margin_pct=margin_pct))
    return found


def plain_steps(traces: Sequence[Trace]) -> list[float]:
    """Return how long the steps of runs took without the profiler, ns."""
    found: list[float] = []
    for trace in traces:
        rows = trace.sql(
            "SELECT unnest(step_ns) FROM run_repeat "
            "WHERE step_ns IS NOT NULL ORDER BY run_id, repeat"
        )
        found += [float(row[0]) for row in rows if row[0] is not None]
    return found


def _unit_name(side: Side) -> str:
    return "window" if side.sample_names[0].endswith("window") else "step"


def _by_run(side: Side) -> list[float]:
    """Return the median of each run."""
    series: dict[str, list[float]] = {}
    for name, value in zip(side.sample_names, side.series(side.cells), strict=True):
        series.setdefault(name.partition(",")[0], []).append(value)
    return [median(values) for values in series.values()]


def _trend(series: Sequence[float]) -> Trend:
    return Trend(warm_up_count(series), outliers(series), drift_pct(series))
