"""The common time axis of several traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracekit.trace import Trace

CLOCK_OFFSETS = "clock_offsets"
"""The analysis that tells by the ends of collectives how far the clocks of ranks are apart."""


@dataclass(frozen=True, slots=True)
class Clock:
    """What a trace tells of its time.

    Attributes:
        base_ns: what to add to its times for ns since the epoch; 0 if it does not tell.
        first_ns: its first event, ns of its own.
        ahead_ns: by how much its clock is ahead of the others', ns; None where nothing tells.
    """

    base_ns: int
    first_ns: int
    ahead_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """Where traces lie on a common axis.

    Attributes:
        shifts: what to add to the times of each trace, ns, by trace_id.
        is_since_epoch: the axis is ns since the epoch.
        notes: what has to be said of it.
    """

    shifts: Mapping[int, int]
    is_since_epoch: bool
    notes: list[str]


def axis_of(clocks: Mapping[int, Clock]) -> Axis:
    """Lay traces on one axis, on which no time is negative."""
    is_since_epoch = all(clock.base_ns for clock in clocks.values())
    is_told = all(clock.ahead_ns is not None for clock in clocks.values())
    notes = []
    if len(clocks) == 1 or is_told or is_since_epoch:
        shifts = {number: clock.base_ns for number, clock in clocks.items()}
    else:
        shifts = {number: -clock.first_ns for number, clock in clocks.items()}
        notes.append("not every trace tells its base time: each begins at 0")
    if len(clocks) > 1 and is_told:
        shifts = {n: shift - (clocks[n].ahead_ns or 0) for n, shift in shifts.items()}
        most_ns = max(abs(clock.ahead_ns or 0) for clock in clocks.values())
        notes.append(
            "the clocks of ranks are aligned by the ends of their collectives "
            f"(moved by {most_ns / 1e3:,.3f} µs at most; see query {CLOCK_OFFSETS})"
        )
    elif len(clocks) > 1 and is_since_epoch:
        notes.append(
            "ranks lie side by side by the clocks of their hosts, which between hosts differ by "
            "microseconds to milliseconds"
        )
    earliest = min(clock.first_ns + shifts[number] for number, clock in clocks.items())
    if earliest < 0:
        shifts = {number: shift - earliest for number, shift in shifts.items()}
    return Axis(shifts, is_since_epoch and earliest >= 0, notes)


def clock_offsets(trace: Trace) -> dict[int, int]:
    """Return by how much the clock of each rank is ahead, ns, by rank, where collectives tell."""
    from tracekit.analysis.catalog import load_catalog

    if CLOCK_OFFSETS not in load_catalog().analyses:
        return {}
    return {
        row["rank"]: row["offset_ns"]
        for row in trace.query(CLOCK_OFFSETS).to_dicts()
        if row["rank"] is not None and row["offset_ns"] is not None
    }
