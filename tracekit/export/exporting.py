"""Writing traces in the format of a viewer, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracekit.export.scene import Writer
from tracekit.export.selection import Scope, Selection, scope_of
from tracekit.export.tracks import Tracks
from tracekit.trace import Trace


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    The events are those of the trace files, the slices all, those of the attribution too.
    """

    trace_count: int
    event_count: int
    slice_count: int
    notes: list[str]


def export(
    trace: Trace,
    writer_of: Callable[[Scope], Writer],
    selection: Selection | None,
    *,
    args: bool,
    lost: str | None = None,
) -> Exported:
    """Write traces.

    `lost` is what the format cannot say.

    Raises:
        QueryError: nothing is chosen.
    """
    scope = scope_of(trace, selection or Selection())
    writer = writer_of(scope)
    tracks = Tracks(trace, scope, writer, args=args)
    tracks.write()
    notes = [*scope.notes, *([] if lost is None else [lost])]
    if tracks.has_no_path:
        notes.append("the critical path is left out: there is too much work on devices for it")
    if tracks.left_out_arrow_count:
        notes.append(
            f"{tracks.left_out_arrow_count:,} arrows lead to events outside of what was chosen "
            "and are left out"
        )
    return Exported(len(scope.parts), tracks.event_count, writer.slice_count, notes)
