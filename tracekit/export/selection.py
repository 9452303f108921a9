"""Selects ranks and times to export, and aligns the times of ranks."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from tracekit.analysis.catalog import load_catalog
from tracekit.errors import QueryError
from tracekit.trace import Trace

ALWAYS = 1 << 62
"""Later than all times of a trace, ns."""


class Selection(Struct, frozen=True):
    """Ranks, steps, and times to export; everything by default.

    A trace without a rank is selected by its position. Steps come from table step_ranges, or from
    serving_step_ranges if step_ranges has none of the trace. They include the GPU work launched in
    them. `from_ns` and `to_ns` are relative to the first event of all selected ranks.
    """

    ranks: frozenset[int] | None = None
    steps: frozenset[int] | None = None
    from_ns: int | None = None
    to_ns: int | None = None


class Part(Struct, frozen=True):
    """One trace of an export; `shift_ns` moves its times to the common axis.

    `from_ns` and `to_ns` are the exported interval in its own time.
    """

    trace_id: int
    name: str
    about: str
    shift_ns: int
    from_ns: int = -ALWAYS
    to_ns: int = ALWAYS


class Scope(Struct, frozen=True):
    parts: tuple[Part, ...]
    is_since_epoch: bool
    notes: list[str] = field(default_factory=list)

    @property
    def is_piece(self) -> bool:
        """Whether part of the time is omitted."""
        return any(part.from_ns > -ALWAYS or part.to_ns < ALWAYS for part in self.parts)

    @property
    def trace_ids(self) -> str:
        """Trace ids, as the list of an IN condition in SQL."""
        return ", ".join(str(part.trace_id) for part in self.parts)

    @property
    def times(self) -> tuple[int, int]:
        """Interval, ns, that covers all parts. Constant bounds in SQL let DuckDB skip data."""
        return min(p.from_ns for p in self.parts), max(p.to_ns for p in self.parts)

    def relation(self) -> str:
        """Return the SQL of a relation of the parts: trace_id, shift_ns, from_ns, to_ns."""
        rows = ", ".join(
            f"({part.trace_id}, {part.shift_ns}::BIGINT, {part.from_ns}::BIGINT, "
            f"{part.to_ns}::BIGINT)"
            for part in self.parts
        )
        return f"(VALUES {rows}) AS chosen (trace_id, shift_ns, from_ns, to_ns)"


CLOCK_OFFSETS = "clock_offsets"
"""Analysis that estimates clock offsets between ranks from the ends of collectives."""


class Clock(Struct, frozen=True):
    """Clock of a trace.

    `base_ns` is the offset of its times from the epoch, 0 if unknown. `ahead_ns` is its lead over
    other clocks, None if unknown.
    """

    base_ns: int
    first_ns: int
    ahead_ns: int | None = None


class Axis(Struct, frozen=True):
    """Alignment of traces on a common axis; `shifts` has the offsets, ns, by trace_id."""

    shifts: Mapping[int, int]
    is_since_epoch: bool
    notes: list[str]


def axis_of(clocks: Mapping[int, Clock]) -> Axis:
    """Align traces on one axis without negative times."""
    is_since_epoch = all(clock.base_ns for clock in clocks.values())
    is_aligned = all(clock.ahead_ns is not None for clock in clocks.values())
    notes = []
    if len(clocks) == 1 or is_aligned or is_since_epoch:
        shifts = {number: clock.base_ns for number, clock in clocks.items()}
    else:
        shifts = {number: -clock.first_ns for number, clock in clocks.items()}
        notes.append("some traces have no base time: each starts at 0")
    if len(clocks) > 1 and is_aligned:
        shifts = {n: shift - (clocks[n].ahead_ns or 0) for n, shift in shifts.items()}
        most_ns = max(abs(clock.ahead_ns or 0) for clock in clocks.values())
        notes.append(
            "clocks of ranks are aligned by the ends of their collectives (shifted by at "
            f"most {most_ns / 1e3:,.3f} µs; see query {CLOCK_OFFSETS})"
        )
    elif len(clocks) > 1 and is_since_epoch:
        notes.append(
            "ranks are aligned by their host clocks, which differ between hosts by "
            "microseconds to milliseconds"
        )
    earliest = min(clock.first_ns + shifts[number] for number, clock in clocks.items())
    if earliest < 0:
        shifts = {number: shift - earliest for number, shift in shifts.items()}
    return Axis(shifts, is_since_epoch and earliest >= 0, notes)


def clock_offsets(trace: Trace) -> dict[int, int]:
    """Return the lead of each rank's clock over the others, ns, if known."""
    if CLOCK_OFFSETS not in load_catalog().analyses:
        return {}
    return {
        row["rank"]: row["offset_ns"]
        for row in trace.query(CLOCK_OFFSETS).to_dicts()
        if row["rank"] is not None and row["offset_ns"] is not None
    }


def scope_of(trace: Trace, selection: Selection) -> Scope:
    rows = trace.sql(
        "SELECT trace_id, rank, file_name, host_name, base_time_ns, first_ts_ns, "
        "row_number() OVER (ORDER BY rank NULLS LAST, trace_id) - 1 FROM trace "
        "WHERE first_ts_ns IS NOT NULL ORDER BY rank NULLS LAST, trace_id"
    ).rows
    if not rows:
        raise QueryError("no event to export")
    chosen = [
        row
        for row in rows
        if selection.ranks is None or (row[6] if row[1] is None else row[1]) in selection.ranks
    ]
    if not chosen:
        ranks = ", ".join(str(row[6] if row[1] is None else row[1]) for row in rows[:20])
        raise QueryError("none of the selected ranks is in the trace", hint=f"ranks: {ranks}")
    ahead = clock_offsets(trace) if len(chosen) > 1 else {}
    bases = {row[0]: row[4] or 0 for row in chosen}
    # Adding a base outside the range of valid times could overflow 64 bits.
    odd = [row[2] for row in chosen if abs(bases[row[0]]) > ALWAYS]
    bases = {number: base if abs(base) <= ALWAYS else 0 for number, base in bases.items()}
    axis = axis_of({row[0]: Clock(bases[row[0]], row[5], ahead.get(row[1])) for row in chosen})
    shifts = axis.shifts
    begin_ns = min(row[5] + shifts[row[0]] for row in chosen)
    spans = _step_spans(trace, selection)
    parts = []
    for trace_id, rank, file_name, host_name, *_ in chosen:
        shift_ns = shifts[trace_id]
        start_ns, end_ns = spans.get(trace_id, (-ALWAYS, ALWAYS))
        if selection.steps is not None and trace_id not in spans:
            continue
        if selection.from_ns is not None:
            start_ns = min(max(start_ns, begin_ns + selection.from_ns - shift_ns), ALWAYS)
        if selection.to_ns is not None:
            end_ns = max(min(end_ns, begin_ns + selection.to_ns - shift_ns), -ALWAYS)
        name = file_name if rank is None else f"rank {rank}"
        about = " · ".join(text for text in (host_name, file_name) if text)
        parts.append(Part(trace_id, name, about, shift_ns, start_ns, end_ns))
    if not parts:
        raise QueryError(
            "none of the selected steps is in the trace",
            hint="list steps with tracekit query steps TRACE (serving engines: serving_steps)",
        )
    notes = [f"{name}: its base time is impossible, and is ignored" for name in odd]
    notes += [*axis.notes, *_gaps_in_reading(trace, parts)]
    return Scope(tuple(parts), axis.is_since_epoch, notes)


def _gaps_in_reading(trace: Trace, parts: list[Part]) -> list[str]:
    """Return a note for each reason for missing events."""
    numbers = ", ".join(str(part.trace_id) for part in parts)
    rows = trace.sql(
        f"""
        SELECT t.file_name, t.truncation_reason, t.rejected_count, a.reason
        FROM trace AS t
        LEFT JOIN accelerator AS a ON t.trace_id = a.trace_id AND NOT a.is_recorded
        WHERE t.trace_id IN ({numbers})
            AND (t.is_truncated OR t.rejected_count > 0 OR a.reason IS NOT NULL)
        ORDER BY t.trace_id
        """
    ).rows
    notes = []
    for file_name, truncation_reason, rejected_count, unrecorded in rows:
        if truncation_reason is not None:
            notes.append(f"{file_name} is cut off: {truncation_reason}")
        if rejected_count:
            notes.append(f"{file_name}: {rejected_count:,} events could not be read")
        if unrecorded is not None:
            notes.append(f"{file_name}: {unrecorded}")
    return notes


def _step_spans(trace: Trace, selection: Selection) -> dict[int, tuple[int, int]]:
    """Return the interval that the selected steps of each trace span on host and devices."""
    if selection.steps is None:
        return {}
    numbers = ", ".join(str(number) for number in sorted(selection.steps)) or "NULL"
    rows = trace.sql(
        f"""
        SELECT trace_id, min(start_ns), max(end_ns) FROM (
            SELECT trace_id, step, ts_ns AS start_ns, end_ns FROM step_ranges
            UNION ALL
            SELECT trace_id, step, ts_ns, end_ns FROM attributed_events
            WHERE trace_id IN (SELECT trace_id FROM step_ranges)
            UNION ALL
            SELECT trace_id, step, start_ns, end_ns FROM (
                SELECT trace_id, step, ts_ns AS start_ns, end_ns FROM serving_step_ranges
                UNION ALL
                SELECT trace_id, step, start_ns, end_ns FROM serving_step_work
            ) WHERE trace_id NOT IN (SELECT trace_id FROM step_ranges)
        ) WHERE step IN ({numbers}) GROUP BY trace_id
        """
    ).rows
    return {trace_id: (start_ns, end_ns) for trace_id, start_ns, end_ns in rows}
