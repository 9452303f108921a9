"""What an export has written, to be said to whoever asked for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        trace_count: traces.
        event_count: events of the trace files.
        slice_count: slices in all, those of the attribution too.
        notes: what has to be known of it.
    """

    trace_count: int
    event_count: int
    slice_count: int
    notes: list[str]
