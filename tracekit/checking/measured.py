"""What rules look at: the figures of one side, each step by step where steps have it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from tracekit.checking.rule import Operator
from tracekit.comparison.cells import Cell, Side
from tracekit.comparison.setup import Health
from tracekit.errors import QueryError, UsageError
from tracekit.units import Unit, unit_of

if TYPE_CHECKING:
    from tracekit.trace import Trace

_MODULE = re.compile(r"module\(\s*(['\"])(?P<glob>.*)\1\s*\)\.(?P<column>\w+)", re.DOTALL)
_QUANTILE = re.compile(r"(?P<quantile>p50|p90|p99|mean|max)\(\s*(?P<metric>\w+)\s*\)")
_COUNT = re.compile(r"count\((?P<condition>.*)\)", re.DOTALL)
_GROUPED = re.compile(r"(?P<group>class|phase|cause)\.(?P<name>[\w ]+)\.(?P<column>\w+)")
_COLUMN = re.compile(r"(?P<analysis>[a-z_]\w*)\.(?P<column>[a-z_]\w*)")
_PART = re.compile(r"(?P<part>compute|exposed_comm|exposed_memcpy|idle)_(?P<unit>ns|pct)")
_HINT = "tracekit check --help shows what a rule can look at"

FIGURES: Mapping[str, Unit | None] = {
    "tokens_per_s": "per_s",
    "peak_memory": "bytes",
    "mfu": None,
}
"""Figures of a run as a whole, with their units."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a subject is on one side.

    `series` holds one value for each step where `is_sampled`; else the values are those of ranks,
    rows or the run, and the worst decides. Times are ns, sizes bytes, shares percent.
    """

    series: Sequence[float]
    is_sampled: bool
    unit: Unit | None

    def worst(self, operator: Operator) -> float:
        """Return the value that is furthest from keeping a bound; of samples the median."""
        if self.is_sampled:
            ordered = sorted(self.series)
            half = len(ordered) // 2
            return (ordered[half] + ordered[~half]) / 2
        return min(self.series) if operator in (">=", ">") else max(self.series)


@dataclass(frozen=True, slots=True)
class Measured:
    """One side of a check: a run, open, or the baseline that was kept of one."""

    label: str
    side: Side | None
    health: Health
    figures: Mapping[str, float]
    trace: Trace | None = None

    def values(self, subject: str) -> Values:
        """Return what a subject is on this side.

        Args:
            subject: as in a rule.

        Raises:
            UsageError: there is no such subject.
            QueryError: this side does not have it.
        """
        for pattern, look in _SUBJECTS:
            found = pattern.fullmatch(subject)
            if found is not None:
                return look(self, found)
        raise UsageError(f"a rule looks at {subject!r}, which there is not", hint=_HINT)

    def cells(self) -> tuple[Side, Sequence[Cell]]:
        """Return the side with its cells.

        Raises:
            QueryError: there is no trace, so there are none.
        """
        if self.side is None:
            raise QueryError(f"{self.label} has no trace, and a rule is about its time")
        return self.side, self.side.cells


def figures_of(trace: Trace) -> dict[str, float]:
    """Return the figures of a run as a whole, as far as it tells them.

    Args:
        trace: the run, open.
    """
    found: dict[str, float] = {}
    for row in trace.sql(
        "SELECT tokens_per_s_mean, "
        "coalesce(nullif(peak_device_allocated_bytes, 0), peak_host_bytes) FROM run LIMIT 1"
    ):
        for name, value in zip(("tokens_per_s", "peak_memory"), row, strict=True):
            if value is not None:
                found[name] = float(value)
    (has_trace,) = trace.sql("SELECT EXISTS (FROM trace), EXISTS (FROM request)")
    if has_trace[0]:
        shares = [row["mfu_pct"] for row in trace.query("mfu").to_dicts()]
        known = [share for share in shares if share is not None]
        if known:
            found["mfu"] = sum(known) / len(known) / 100
    if has_trace[1]:
        for one in trace.query("latency").to_dicts():
            for quantile in ("mean", "p50", "p90", "p99", "max"):
                value = one[f"{quantile}_ns"]
                if value is not None:
                    found[f"{quantile}({one['metric']})"] = float(value)
    return found


def _step_time(measured: Measured, found: re.Match[str]) -> Values:
    del found
    side, cells = measured.cells()
    return Values(side.series(cells), True, "ns")


def _part(measured: Measured, found: re.Match[str]) -> Values:
    side, cells = measured.cells()
    inside = side.series(cell for cell in cells if cell.part == found["part"])
    if found["unit"] == "ns":
        return Values(inside, True, "ns")
    whole = side.series(cells)
    shares = [
        100 * part / all_ns if all_ns else 0.0 for part, all_ns in zip(inside, whole, strict=True)
    ]
    return Values(shares, True, "pct")


def _summed(measured: Measured, cells: Iterable[Cell], column: str, subject: str) -> Values:
    side = measured.cells()[0]
    chosen = list(cells)
    if column in ("wall_ns", "idle_ns"):
        return Values(side.series(chosen), True, "ns")
    if column in ("kernel_ns", "kernel_count"):
        total: int = sum(getattr(cell, column) for cell in chosen)
        return Values([total / side.unit_count], False, "ns" if column == "kernel_ns" else "count")
    raise UsageError(
        f"a rule looks at {subject!r}, which there is not", hint="wall_ns, kernel_ns, kernel_count"
    )


def _grouped(measured: Measured, found: re.Match[str]) -> Values:
    _, cells = measured.cells()
    group, name = found["group"], found["name"]

    def is_meant(cell: Cell) -> bool:
        if group == "phase":
            return cell.phase == name and (cell.part == "idle") == (found["column"] == "idle_ns")
        return cell.class_name == name and (cell.part == "idle") == (group == "cause")

    return _summed(measured, filter(is_meant, cells), found["column"], found[0])


def _module(measured: Measured, found: re.Match[str]) -> Values:
    side, cells = measured.cells()
    glob = found["glob"]
    # A module is meant with what is inside of it.
    meant: set[str] = set()
    for path in side.modules:
        around: str | None = path
        while around is not None and not fnmatchcase(around, glob):
            around = side.modules[around].parent if around in side.modules else None
        if around is not None:
            meant.add(path)
    chosen = [
        cell
        for cell in cells
        if cell.part != "idle" and (cell.module in meant or fnmatchcase(cell.module, glob))
    ]
    if not chosen:
        raise QueryError(f"{measured.label} has no module {glob!r} that worked on a device")
    return _summed(measured, chosen, found["column"], found[0])


def _health(measured: Measured, found: re.Match[str]) -> Values:
    metric = found["metric"]
    if measured.trace is not None:
        rows = measured.trace.health().to_dicts()
        told = [row for row in rows if row["metric"] == metric and row["value"] is not None]
        if told:
            unit = told[0]["unit"] if told[0]["unit"] in ("ns", "pct", "count", "bytes") else None
            return Values([float(row["value"]) for row in told], False, unit)
    elif metric in measured.health:
        return Values([measured.health[metric]], False, None)
    raise QueryError(f"{measured.label} does not tell {metric} in its health")


def _figure(measured: Measured, found: re.Match[str]) -> Values:
    name = found[0].replace(" ", "")
    if name not in measured.figures:
        raise QueryError(f"{measured.label} does not tell {name}")
    return Values([measured.figures[name]], False, FIGURES.get(name, "ns"))


def _count(measured: Measured, found: re.Match[str]) -> Values:
    trace = _opened(measured, found[0])
    rows = trace.sql(
        "SELECT count(*) FROM (SELECT name AS kernel, * FROM attributed_events WHERE piece = 0) "
        f"WHERE {found['condition']}"
    )
    return Values([float(row[0]) for row in rows], False, "count")


def _column(measured: Measured, found: re.Match[str]) -> Values:
    trace = _opened(measured, found[0])
    values: list[Any] = trace.query(found["analysis"]).column(found["column"])
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if not numbers:
        raise QueryError(f"{measured.label}: {found[0]} has no value")
    return Values(numbers, False, unit_of(found["column"]))


def _opened(measured: Measured, subject: str) -> Trace:
    if measured.trace is None:
        raise QueryError(
            f"the baseline {measured.label} does not tell {subject}",
            hint="a rule about it cannot be relative to a baseline",
        )
    return measured.trace


_Look = Callable[[Measured, "re.Match[str]"], Values]

_SUBJECTS: tuple[tuple[re.Pattern[str], _Look], ...] = (
    (re.compile(r"step_time|window_time"), _step_time),
    (_PART, _part),
    (_GROUPED, _grouped),
    (_MODULE, _module),
    (re.compile(r"health\.(?P<metric>\w+)"), _health),
    (re.compile("|".join(FIGURES)), _figure),
    (_QUANTILE, _figure),
    (_COUNT, _count),
    (_COLUMN, _column),
)
"""What a rule can look at, and how it is found; the first that fits."""
