"""Values that `tracekit check` compares: of the run and of its baseline, per step if available."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from statistics import median
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from tracekit.analysis.breakdown import Mfu, mean_mfu
from tracekit.checking.names import COLUMN, GROUPED, HEALTH, MODULE, QUANTILE
from tracekit.checking.rules import Operator
from tracekit.comparison.cells import PARTS, Cell, Side
from tracekit.comparison.quantiles import Ordered, thinned
from tracekit.comparison.serving import QUANTILES
from tracekit.comparison.setup import Health
from tracekit.errors import QueryError, UsageError
from tracekit.trace import Trace
from tracekit.units import Unit, unit_of

_COUNT = re.compile(r"count\((?P<condition>.*)\)", re.DOTALL)
_PART = re.compile(rf"(?P<part>{'|'.join(PARTS)})_(?P<unit>ns|pct)")
_HINT = "tracekit check --help lists the rule targets"

FIGURES: Mapping[str, Unit | None] = {
    "tokens_per_s": "per_s",
    "peak_memory": "bytes",
    "mfu": None,
}
"""Figures of a complete run, with their units."""


class Values(Struct, frozen=True):
    """Values of a rule's target (its subject) in the run or in the baseline.

    If `is_sampled`, `series` has one value per step. Otherwise, it has values of ranks, rows, or
    the run, and the worst one decides. Times are in ns, sizes in bytes, shares in percent.
    `is_exact` marks values that do not vary by chance: counts, bytes, and data-quality metrics. If
    there is no value per step, noise is estimated from `repeats` (values of the run's repeats) or
    `requests` (latencies). `rests_on` describes the basis of the figure.
    """

    series: Sequence[float]
    is_sampled: bool
    unit: Unit | None
    is_exact: bool = False
    repeats: Sequence[float] = ()
    requests: Ordered | None = None
    quantile: int = 0
    rests_on: str = ""

    def worst(self, operator: Operator, bound: float = 0.0) -> float:
        if self.is_sampled:
            return median(self.series)
        if operator == "=":
            return max(self.series, key=lambda value: abs(value - bound))
        return min(self.series) if operator in (">=", ">") else max(self.series)


class Measured(Struct, frozen=True):
    """One side of a check: an open run or a baseline. Only baselines have `latencies`."""

    label: str
    side: Side | None
    health: Health
    figures: Mapping[str, float]
    trace: Trace | None = None
    repeats: Sequence[float] = ()
    step_ns: Sequence[float] = ()
    latencies: Mapping[str, Ordered] = field(default_factory=dict)

    def values(self, subject: str) -> Values:
        for pattern, look in _SUBJECTS:
            match = pattern.fullmatch(subject)
            if match is not None:
                return look(self, match)
        raise UsageError(f"unknown rule target {subject!r}", hint=_HINT)

    def cells(self) -> tuple[Side, Sequence[Cell]]:
        if self.side is None:
            run_count = _run_count(self.trace) if self.trace is not None else 0
            if run_count > 1:
                raise QueryError(f"{self.label} contains {run_count:,} runs; a rule applies to one")
            raise QueryError(f"{self.label} has no trace, which the rule needs")
        return self.side, self.side.cells

    def module_paths(self) -> set[str]:
        if self.side is None:
            return set()
        return {*self.side.modules, *(cell.module for cell in self.side.cells)}

    def modules_like(self, glob: str) -> set[str]:
        """Return the modules that match a pattern (`*` is a wildcard), and their children."""
        meant: set[str] = set()
        modules = self.side.modules if self.side else {}
        for path in self.module_paths():
            around: str | None = path
            while around is not None and not fnmatchcase(around, glob):
                around = modules[around].parent if around in modules else None
            if around is not None:
                meant.add(path)
        return meant


def _advice(measured: Measured, match: re.Match[str]) -> Values:
    del match
    advised = measured.trace.advise() if measured.trace else None
    if advised is None or not advised.has_trace:
        raise QueryError(f"{measured.label} has no trace, which advice needs")
    advice = [one for one in advised.advice if one.is_certain]
    gains = [one.prediction.gain_pct or 0.0 for one in advice] or [0.0]
    rule = advice[0].candidate.rule if advice else "nothing"
    return Values(gains, False, "pct", is_exact=True, rests_on=f"largest: {rule}")


def _unprofiled_step_time(measured: Measured, match: re.Match[str]) -> Values:
    if not measured.step_ns:
        raise QueryError(f"{measured.label}: {match[0]} is unknown")
    return Values(measured.step_ns, True, "ns")


def _part(measured: Measured, match: re.Match[str]) -> Values:
    side, cells = measured.cells()
    inside = side.series(cell for cell in cells if cell.part == match["part"])
    if match["unit"] == "ns":
        return Values(inside, True, "ns")
    total = side.series(cells)
    shares = [100 * part / all_ns for part, all_ns in zip(inside, total, strict=True) if all_ns]
    if not shares:
        raise QueryError(f"{measured.label}: {match[0]} needs a step time, which is unknown")
    return Values(shares, True, "pct")


def _summed(measured: Measured, chosen: Sequence[Cell] | None, column: str) -> Values:
    side, cells = measured.cells()
    chosen = cells if chosen is None else chosen
    if column in ("wall_ns", "idle_ns"):
        return Values(side.series(chosen), True, "ns")
    total: int = sum(getattr(cell, column) for cell in chosen)
    is_count = column == "kernel_count"
    return Values([total / side.unit_count], False, "count" if is_count else "ns", is_count)


def _grouped(measured: Measured, match: re.Match[str]) -> Values:
    _, cells = measured.cells()
    group, name, column = match["group"], match["name"], match["column"]
    is_idle = group == "cause" or column == "idle_ns"
    chosen = [
        cell
        for cell in cells
        if (cell.phase if group == "phase" else cell.class_name) == name
        and (cell.part == "idle") == is_idle
    ]
    return _summed(measured, chosen, column)


def _module(measured: Measured, match: re.Match[str]) -> Values:
    side, cells = measured.cells()
    glob, is_idle = match["glob"], match["column"] == "idle_ns"
    modules = measured.modules_like(glob)
    if not modules:
        text = f"no module matches {glob!r}" if side.modules else "the trace has no modules"
        raise QueryError(f"{measured.label}: {text}")
    chosen = [cell for cell in cells if (cell.part == "idle") == is_idle and cell.module in modules]
    return _summed(measured, chosen, match["column"])


def _health(measured: Measured, match: re.Match[str]) -> Values:
    metric = match["metric"]
    if measured.trace is not None:
        rows = measured.trace.health().to_dicts()
        known = [row for row in rows if row["metric"] == metric and row["value"] is not None]
        if known:
            unit = known[0]["unit"] if known[0]["unit"] in ("ns", "pct", "count", "bytes") else None
            return Values([float(row["value"]) for row in known], False, unit, is_exact=True)
    elif metric in measured.health:
        return Values([measured.health[metric]], False, None, is_exact=True)
    raise QueryError(f"{measured.label}: health has no value for {metric}")


def _figure(measured: Measured, match: re.Match[str]) -> Values:
    name = match[0].replace(" ", "")
    if name == "mfu" and measured.trace is not None:
        mfu = mfu_of(measured.trace, measured.label)
        text = f"known for {mfu.known_pct:.0f} % of the step time"
        if mfu.is_of_run:
            text += ", unprofiled"
        return Values([mfu.share], False, None, rests_on=text)
    if name not in measured.figures:
        raise QueryError(f"{measured.label}: {name} is unknown")
    unit = FIGURES.get(name, "ns")
    series = [measured.figures[name]]
    repeats = measured.repeats if name == "tokens_per_s" else ()
    return Values(series, False, unit, is_exact=unit == "bytes", repeats=repeats)


def _latency(measured: Measured, match: re.Match[str]) -> Values:
    value, metric = _figure(measured, match), match["metric"]
    requests = measured.latencies.get(metric)
    if measured.trace is not None:
        # Percentiles exclude failed requests.
        for row in measured.trace.query("latency").to_dicts():
            if row["metric"] == metric and row["left_out_count"]:
                text = f"{row['left_out_count']:,} failed requests are excluded"
                value = replace(value, rests_on=text)
        series = requests_of(measured.trace, metric)
        requests = Ordered.of(series) if series else None
    if not match["quantile"].startswith("p"):
        return value
    return replace(value, requests=requests, quantile=int(match["quantile"].removeprefix("p")))


def _count(measured: Measured, match: re.Match[str]) -> Values:
    trace = _opened(measured, match[0])
    measured.cells()
    rows = ask(
        trace,
        "SELECT count(*) FROM (SELECT name AS kernel, * FROM attributed_events WHERE piece = 0) "
        f"WHERE {match['condition']}",
        match[0],
    )
    return Values([float(row[0]) for row in rows], False, "count", is_exact=True)


def ask(trace: Trace, statement: str, subject: str) -> list[Any]:
    try:
        return list(trace.sql(statement))
    except QueryError as error:
        raise UsageError(f"rule target {subject!r}: {error.message}", hint=error.hint) from error


def _column(measured: Measured, match: re.Match[str]) -> Values:
    trace = _opened(measured, match[0])
    values: list[Any] = trace.query(match["analysis"]).column(match["column"])
    numbers = [
        float(value)
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    ]
    if not numbers:
        raise QueryError(f"{measured.label}: {match[0]} has no value")
    unit = unit_of(match["column"])
    missing = len(values) - len(numbers)
    rests_on = f"{missing:,} of {len(values):,} rows have no value" if missing else ""
    is_exact = unit in ("count", "bytes", "flops")
    return Values(numbers, False, unit, is_exact=is_exact, rests_on=rests_on)


def _opened(measured: Measured, subject: str) -> Trace:
    if measured.trace is None:
        raise QueryError(
            f"{measured.label} has no {subject}",
            hint="a rule for it cannot be relative to a baseline",
        )
    return measured.trace


_Look = Callable[[Measured, "re.Match[str]"], Values]

_SUBJECTS: tuple[tuple[re.Pattern[str], _Look], ...] = (
    (re.compile(r"step_time|window_time"), lambda measured, _: _summed(measured, None, "wall_ns")),
    (re.compile("(unprofiled|plain)_step_time"), _unprofiled_step_time),
    (re.compile("advice"), _advice),
    (_PART, _part),
    (GROUPED, _grouped),
    (MODULE, _module),
    (HEALTH, _health),
    (re.compile("|".join(FIGURES)), _figure),
    (QUANTILE, _latency),
    (_COUNT, _count),
    (COLUMN, _column),
)
"""Patterns of rule targets with the functions that return their values; the first match applies."""


# -- figures of a complete run ---------------------------------------------------------------------

MFU_KNOWN_PCT = 95.0
"""Minimum share of step time with known MFU, percent."""

_QUANTILES = ("mean", "p50", "p90", "p99", "max")
_OF_REQUESTS = ("e2e", "ttft", "tpot")
"""Latency metrics with one value per request. Several values of a request would not be
independent."""

_MAX_KEPT = 1_000


def figures_of(trace: Trace) -> dict[str, float]:
    """Return the known figures of a complete run, such as `mfu` (0 to 1) and `p99(ttft)` (ns).

    If several runs are open, figures from manifests and requests are omitted.
    """
    result: dict[str, float] = {}
    run_count = _run_count(trace)
    if run_count == 1:
        has_device = "EXISTS (FROM accelerator WHERE accelerator <> 'cpu')"
        (row,) = trace.sql(
            "SELECT tokens_per_s_mean, coalesce(nullif(peak_device_allocated_bytes, 0), "
            f"if({has_device}, NULL, peak_host_bytes)) FROM run"
        )
        for name, value in zip(("tokens_per_s", "peak_memory"), row, strict=True):
            if value is not None:
                result[name] = float(value)
    ((has_trace, has_requests),) = trace.sql("SELECT EXISTS (FROM trace), EXISTS (FROM request)")
    if has_trace:
        mfu = mean_mfu(trace.query("mfu"))
        if mfu is not None and mfu.known_pct >= MFU_KNOWN_PCT:
            result["mfu"] = mfu.share
    if has_requests and run_count == 1:
        for one in trace.query("latency").to_dicts():
            for quantile in _QUANTILES:
                value = one[f"{quantile}_ns"]
                if value is not None:
                    result[f"{quantile}({one['metric']})"] = float(value)
    return result


def mfu_of(trace: Trace, label: str) -> Mfu:
    ((has_trace,),) = trace.sql("SELECT EXISTS (FROM trace)")
    result = mean_mfu(trace.query("mfu")) if has_trace else None
    if result is None:
        raise QueryError(f"{label}: mfu is unknown")
    if result.known_pct < MFU_KNOWN_PCT:
        raise QueryError(
            f"{label}: mfu is known for only {result.known_pct:.1f} % of the step time (at "
            f"least {MFU_KNOWN_PCT:g} % needed)"
        )
    return result


def repeats_of(trace: Trace) -> tuple[list[float], list[float]]:
    """Return the tokens per second of each repeat, and the times of unprofiled steps, ns."""
    if _run_count(trace) != 1:
        return [], []
    rows = [*trace.sql("SELECT tokens_per_s, step_ns FROM run_repeat ORDER BY repeat")]
    rates = [rate for rate, _ in rows if rate is not None]
    return rates, [float(ns) for _, step_ns in rows for ns in step_ns or ()]


def requests_of(trace: Trace, metric: str) -> Sequence[int]:
    """Return one latency per request, ns; an empty list for other metrics."""
    if metric not in _OF_REQUESTS:
        return []
    rows = trace.sql(f"SELECT value_ns FROM request_latency('sent') WHERE metric = '{metric}'")
    return [value for (value,) in rows]


def latencies_of(trace: Trace) -> dict[str, Ordered]:
    """Return the sorted latencies of requests for a baseline by metric, ns.

    Of more than 1,000 requests, only the latencies that a comparison of percentiles needs are
    returned. If several runs are open, the result is empty.
    """
    ((run_count, has_requests),) = trace.sql("SELECT count(*), EXISTS (FROM request) FROM run")
    if run_count != 1 or not has_requests:
        return {}
    return {
        metric: thinned(series, QUANTILES, _MAX_KEPT)
        for metric in _OF_REQUESTS
        if (series := requests_of(trace, metric))
    }


def _run_count(trace: Trace) -> int:
    ((count,),) = trace.sql("SELECT count(*) FROM run")
    return int(count)
