"""Export of traces for Perfetto, with tracekit's attribution as tracks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracekit.export.packets import PacketWriter
from tracekit.export.selection import Selection, scope_of
from tracekit.export.tracks import Tracks
from tracekit.trace import Trace


@dataclass(frozen=True, slots=True)
class Exported:
    """Counts of an export: events of the trace files, and all slices, including attribution."""

    trace_count: int
    event_count: int
    slice_count: int
    notes: list[str]


def export_perfetto(
    trace: Trace,
    write: Callable[[bytes], object],
    selection: Selection | None = None,
    *,
    args: bool = True,
) -> Exported:
    """Write traces for Perfetto, exact in ns."""
    scope = scope_of(trace, selection or Selection())
    writer = PacketWriter(write)
    tracks = Tracks(trace, scope, writer, args=args)
    tracks.write()
    notes = [*scope.notes]
    if tracks.has_no_path:
        notes.append("the critical path is omitted: the trace has too much device work for it")
    if tracks.left_out_arrow_count:
        notes.append(
            f"{tracks.left_out_arrow_count:,} arrows to events outside the selection are omitted"
        )
    return Exported(len(scope.parts), tracks.event_count, writer.slice_count, notes)
