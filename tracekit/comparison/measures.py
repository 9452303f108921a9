"""What was measured on both sides, and whether it differs by more than noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from tracekit.comparison.cells import Side
from tracekit.comparison.noise import Difference, compare_series
from tracekit.comparison.statistics import ALPHA, least_count, spread
from tracekit.trace import Trace

_NORMAL = NormalDist()
_MOST = 1_000

DEVICE_WORK = "device work"
"""What devices work in a step: all of it but idle time, which the host and the profiler change."""

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
    """Compare one series of each side."""
    difference = compare_series(base, new, margin_pct=margin_pct, is_in_order=is_in_order)
    return Measure(name, base, new, difference, _trend(base), _trend(new))


def measures_of(
    base: Side, new: Side, plain: Sequence[Sequence[float]], margin_pct: float
) -> list[Measure]:
    """Return all that was measured on both sides, what decides first.

    Steps without the profiler decide where both sides have enough of them: the recording is not the
    run. Else one number of each run does where both sides have enough runs; else steps do.
    """
    unit = "window" if base.sample_names[0].endswith("window") else "step"
    series = base.series(base.cells), new.series(new.cells)
    found = [measure(unit, *series, margin_pct=margin_pct)]
    working = [
        side.series(cell for cell in side.cells if cell.part != "idle") for side in (base, new)
    ]
    if unit == "step" and all(map(any, working)):
        found.append(measure(DEVICE_WORK, *working, margin_pct=margin_pct))
    if base.run_count > 1 and new.run_count > 1 and base.per != "window":
        of_runs = measure(
            "run", _by_run(base), _by_run(new), margin_pct=margin_pct, is_in_order=False
        )
        is_enough = min(base.run_count, new.run_count) >= least_count()
        found.insert(0 if is_enough else len(found), of_runs)
    if all(plain):
        is_enough = min(map(len, plain)) >= least_count()
        of_plain = measure(PLAIN_STEP, *plain, margin_pct=margin_pct)
        found.insert(0 if is_enough else len(found), of_plain)
    return found


def plain_steps(traces: Sequence[Trace]) -> list[float]:
    """Return how long the steps of runs took without the profiler, ns."""
    statement = (
        "SELECT unnest(step_ns) FROM run_repeat WHERE step_ns IS NOT NULL ORDER BY run_id, repeat"
    )
    rows = (row for trace in traces for row in trace.sql(statement))
    return [float(step_ns) for (step_ns,) in rows if step_ns is not None]


def _by_run(side: Side) -> list[float]:
    """Return the median of each run."""
    series: dict[str, list[float]] = {}
    for name, value in zip(side.sample_names, side.series(side.cells), strict=True):
        series.setdefault(name.partition(",")[0], []).append(value)
    return [median(values) for values in series.values()]


def _trend(series: Sequence[float]) -> Trend:
    return Trend(warm_up_count(series), outliers(series), drift_pct(series))


# -- what a series shows besides its noise: warm-up, outliers, drift -------------------------------


def outliers(series: Sequence[float]) -> list[int]:
    """Return the places of measurements far above or below all others.

    Far is more than five standard deviations, estimated from the median of distances from the
    median, and more than 1 % of the median.
    """
    if len(series) < 4:
        return []
    middle = median(series)
    limit = max(5 * spread(series), abs(middle) / 100)
    return [place for place, value in enumerate(series) if abs(value - middle) > limit]


def warm_up_count(series: Sequence[float]) -> int:
    """Return how many measurements at the beginning are outliers above the rest: a warm-up."""
    middle = median(series)
    high = {place for place in outliers(series) if series[place] > middle}
    count = 0
    while count in high:
        count += 1
    return count


def drift_pct(series: Sequence[float], *, alpha: float = ALPHA) -> float | None:
    """Return by how much a series rises from its first to its last measurement, if it does.

    Returns:
        The slope (Theil and Sen) over the whole series in percent of the median; None where the
        test of Mann and Kendall sees no drift. Of more than 1,000 measurements neighbours count as
        one, by their median: every pair of measurements is looked at.
    """
    series = _thinned(series)
    count = len(series)
    if count < 5:
        return None
    signs = sum(
        (later > earlier) - (later < earlier)
        for place, earlier in enumerate(series)
        for later in series[place + 1 :]
    )
    variance = count * (count - 1) * (2 * count + 5) / 18
    z = max(0, abs(signs) - 1) / math.sqrt(variance)
    if 2 * (1 - _NORMAL.cdf(z)) > alpha or median(series) == 0:
        return None
    slopes = [
        (series[right] - series[left]) / (right - left)
        for left in range(count)
        for right in range(left + 1, count)
    ]
    return 100 * median(slopes) * (count - 1) / median(series)


def _thinned(series: Sequence[float]) -> Sequence[float]:
    length = -(-len(series) // _MOST)
    if length <= 1:
        return series
    return [median(series[at : at + length]) for at in range(0, len(series), length)]
