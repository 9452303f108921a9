"""The steps of a trace, and where their rows lead."""

from __future__ import annotations

from tracekit.browse.events import device_is, device_text, events_of
from tracekit.browse.page import AnalysisView, Asked, Row, View


def steps() -> View:
    """Return what each step put on each device."""
    return AnalysisView(
        "Steps, and what they put on each device",
        Asked("steps"),
        (
            *("step", "dur_ns", "span_ns", "wall_ns", "kernel_ns", "kernel_count", "start_ns"),
            *("rank", "device"),
        ),
        lead=_events_of_step,
    )


def _events_of_step(row: Row) -> View:
    step = row["step"]
    named, condition = (
        ("no step", "e.step IS NULL") if step is None else (f"step {step}", f"e.step = {int(step)}")
    )
    place = (row["rank"], row["device"])
    return events_of(f"Events: {named} on {device_text(*place)}", [*device_is(*place), condition])
