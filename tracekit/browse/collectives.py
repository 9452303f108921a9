"""The collectives of a trace, and where their rows lead."""

from __future__ import annotations

from tracekit.browse.events import device_is, device_text, events_of
from tracekit.browse.page import AnalysisView, Asked, Row, View, literal_of


def collectives() -> View:
    """Return every collective, the longest of each device first."""
    return AnalysisView(
        "Collectives, the longest of each device first",
        Asked("collectives", {"limit": 0}),
        (
            *("dur_ns", "wall_ns", "message_bytes", "bus_bytes_per_s", "class", "step", "phase"),
            *("start_ns", "group_size", "pg_name", "name", "rank", "device", "reason"),
        ),
        lead=_event_of_collective,
    )


def _event_of_collective(row: Row) -> View:
    title = f"{row['class']} on {device_text(row['rank'], row['device'])}"
    conditions = [
        *device_is(row["rank"], row["device"]),
        f"e.stream = {int(row['stream'])}" if row["stream"] is not None else "e.stream IS NULL",
        f"e.ts_ns - t.first_ts_ns = {int(row['start_ns'])}",
        f"e.name = {literal_of(row['name'])}",
    ]
    return events_of(f"Collective: {title}", conditions)
