"""A trace in Perfetto's own format, with our attribution as tracks of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracekit.export.packets import PacketWriter
from tracekit.export.selection import Selection, scope_of
from tracekit.export.tracks import Tracks
from tracekit.export.written import Exported

if TYPE_CHECKING:
    from tracekit.trace import Trace


def export_perfetto(
    trace: Trace,
    write: Callable[[bytes], object],
    selection: Selection | None = None,
    *,
    args: bool = True,
) -> Exported:
    """Write traces for Perfetto, exact in ns.

    Args:
        trace: the opened traces.
        write: takes blocks of the file.
        selection: what is written; all if None.
        args: write the arguments of events.

    Raises:
        QueryError: nothing is chosen.
    """
    scope = scope_of(trace, selection or Selection())
    writer = PacketWriter(write)
    tracks = Tracks(trace, scope, writer, args=args)
    tracks.write()
    return Exported(len(scope.parts), tracks.event_count, writer.slice_count, scope.notes)
