"""A trace in Perfetto's own format, with our attribution as tracks of their own."""

from __future__ import annotations

from collections.abc import Callable

from tracekit.export.exporting import Exported, export
from tracekit.export.packets import PacketWriter
from tracekit.export.selection import Selection
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
    return export(trace, lambda _: PacketWriter(write), selection, args=args)
