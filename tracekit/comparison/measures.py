"""Compares measurements of both sides, and tests whether their difference exceeds noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, median
from typing import NamedTuple

from msgspec import Struct

from tracekit.analysis.breakdown import is_small, unprofiled_step
from tracekit.comparison.cells import Side
from tracekit.comparison.noise import Difference, Verdict, compare_series, share_pct
from tracekit.comparison.statistics import ALPHA, least_count, spread
from tracekit.trace import Trace

_NORMAL = NormalDist()
_MAX_SAMPLES = 1_000

BUSY_TIME = "busy time"
"""Busy time of a step, excluding idle time, which the host and the profiler affect."""

UNPROFILED_STEP = "unprofiled step"
"""Steps without profiler or ranges, from run manifests."""


class Trend(Struct, frozen=True):
    """Warm-up, outliers (indices from 0), and drift (percent of the median) of a series."""

    warm_up_count: int
    outliers: Sequence[int]
    drift_pct: float | None


class Measure(Struct, frozen=True):
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
    difference = compare_series(base, new, margin_pct=margin_pct, is_in_order=is_in_order)
    trends = (Trend(warm_up_count(s), outliers(s), drift_pct(s)) for s in (base, new))
    return Measure(name, base, new, difference, *trends)


def measures_of(
    base: Side, new: Side, plain: Sequence[Sequence[float]], margin_pct: float
) -> list[Measure]:
    """Return the measures that both sides have; the first one decides.

    Unprofiled steps decide if both sides have enough of them, because profiling changes times.
    Otherwise, one number per run decides if both sides have enough runs, else profiled steps.
    """
    unit = "window" if base.sample_names[0].endswith("window") else "step"
    series = base.series(base.cells), new.series(new.cells)
    results = [measure(unit, *series, margin_pct=margin_pct)]
    working = [
        side.series(cell for cell in side.cells if cell.part != "idle") for side in (base, new)
    ]
    if unit == "step" and all(map(any, working)):
        results.append(measure(BUSY_TIME, *working, margin_pct=margin_pct))
    if base.run_count > 1 and new.run_count > 1 and base.per != "window":
        of_runs = measure(
            "run", _by_run(base), _by_run(new), margin_pct=margin_pct, is_in_order=False
        )
        is_enough = min(base.run_count, new.run_count) >= least_count()
        results.insert(0 if is_enough else len(results), of_runs)
    if all(plain):
        is_enough = min(map(len, plain)) >= least_count()
        of_plain = measure(UNPROFILED_STEP, *plain, margin_pct=margin_pct)
        results.insert(0 if is_enough else len(results), of_plain)
    return results


def unprofiled_steps(traces: Sequence[Trace]) -> list[float]:
    statement = (
        "SELECT unnest(step_ns) FROM run_repeat WHERE step_ns IS NOT NULL ORDER BY run_id, repeat"
    )
    rows = (row for trace in traces for row in trace.sql(statement))
    return [float(step_ns) for (step_ns,) in rows if step_ns is not None]


class RunStep(NamedTuple):
    """The unprofiled step of one side, measured or estimated, with its interval, in ns."""

    step_ns: float
    low_ns: float
    high_ns: float
    is_measured: bool


class RunDifference(NamedTuple):
    """Difference of the unprofiled steps of two sides, with its interval, in ns."""

    base: RunStep
    new: RunStep
    low_ns: float
    high_ns: float
    verdict: Verdict | None

    @property
    def delta_ns(self) -> float:
        return self.new.step_ns - self.base.step_ns

    @property
    def delta_pct(self) -> float | None:
        return share_pct(self.delta_ns, self.base.step_ns)

    @property
    def basis(self) -> str:
        return "measured" if self.base.is_measured and self.new.is_measured else "estimated"


def run_step(traces: Sequence[Trace], plain: Sequence[float]) -> RunStep | None:
    """Return the median of the `plain` steps, else the mean estimate of the traces, else None."""
    if plain:
        return RunStep(median(plain), min(plain), max(plain), is_measured=True)
    results = [_run_step(trace) for trace in traces]
    known = [one for one in results if one is not None]
    if not known or len(known) < len(results):
        return None
    step_ns, low_ns, high_ns = (fmean(times) for times in list(zip(*known, strict=True))[:3])
    return RunStep(step_ns, low_ns, high_ns, all(one.is_measured for one in known))


def _run_step(trace: Trace) -> RunStep | None:
    rows = trace.query("run_idle").to_dicts()
    if not rows:
        return None
    if (plain_ns := rows[0]["unprofiled_step_ns"]) is not None:
        return RunStep(plain_ns, plain_ns, plain_ns, is_measured=True)
    if not is_small(trace.query("timeline")):
        return None
    result = unprofiled_step(trace.query("unprofiled"))
    if result is None or result.step_ns is None:
        return None
    return RunStep(result.step_ns, result.low_ns, result.high_ns, is_measured=False)


def run_difference(
    base: RunStep | None, new: RunStep | None, measures: Sequence[Measure], margin_pct: float
) -> RunDifference | None:
    if base is None or new is None:
        return None
    low_ns, high_ns = new.low_ns - base.high_ns, new.high_ns - base.low_ns
    if base.is_measured and new.is_measured:
        plain = [one.difference for one in measures if one.name == UNPROFILED_STEP]
        return RunDifference(base, new, low_ns, high_ns, plain[0].verdict if plain else None)
    margin_ns = base.step_ns * margin_pct / 100
    if base == new:
        return RunDifference(base, new, 0.0, 0.0, "same")
    verdict: Verdict = "slower" if low_ns > 0 else "faster" if high_ns < 0 else "inconclusive"
    if -margin_ns <= low_ns and high_ns <= margin_ns:
        verdict = "same"
    return RunDifference(base, new, low_ns, high_ns, verdict)


def _by_run(side: Side) -> list[float]:
    series: dict[str, list[float]] = {}
    for name, value in zip(side.sample_names, side.series(side.cells), strict=True):
        series.setdefault(name.partition(",")[0], []).append(value)
    return [median(values) for values in series.values()]


# -- warm-up, outliers, and drift of a series ---------------------------------------------------


def outliers(series: Sequence[float]) -> list[int]:
    """Return the indices of measurements far above or below all others.

    Far is more than five standard deviations, estimated from the median absolute deviation, and
    more than 1 % of the median.
    """
    if len(series) < 4:
        return []
    middle = median(series)
    limit = max(5 * spread(series), abs(middle) / 100)
    return [place for place, value in enumerate(series) if abs(value - middle) > limit]


def warm_up_count(series: Sequence[float]) -> int:
    middle = median(series)
    high = {place for place in outliers(series) if series[place] > middle}
    count = 0
    while count in high:
        count += 1
    return count


def drift_pct(series: Sequence[float]) -> float | None:
    """Return the increase of a series, percent of the median; None without a trend (Mann-Kendall).

    It is the Theil-Sen slope over the entire series. Above 1,000 measurements, adjacent ones are
    combined by their median, because the test uses every pair.
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
    if 2 * (1 - _NORMAL.cdf(z)) > ALPHA or median(series) == 0:
        return None
    slopes = [
        (series[right] - series[left]) / (right - left)
        for left in range(count)
        for right in range(left + 1, count)
    ]
    return 100 * median(slopes) * (count - 1) / median(series)


def _thinned(series: Sequence[float]) -> Sequence[float]:
    length = -(-len(series) // _MAX_SAMPLES)
    if length <= 1:
        return series
    return [median(series[at : at + length]) for at in range(0, len(series), length)]
