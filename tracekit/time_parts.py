"""Names and glyphs of the parts of a device's window: compute, exposed work, and idle time.

Macro `time_part` and analysis `timeline` define these parts.
"""

from __future__ import annotations

from typing import NamedTuple

from tracekit.palette import KIND, Colour


class TimePart(NamedTuple):
    """One part: its name in SQL and in columns, its kind, its label, and its glyph."""

    name: str
    kind: str
    label: str
    glyph: str

    @property
    def short_label(self) -> str:
        """A short label, such as ``exposed comm``."""
        return self.name.replace("_", " ")

    @property
    def colour(self) -> Colour:
        """The color of its kind."""
        return KIND[self.kind]


PARTS = (
    TimePart("compute", "compute", "compute", "█"),
    TimePart("exposed_comm", "comm", "exposed communication", "▓"),
    TimePart("exposed_memcpy", "memcpy", "exposed copies", "▒"),
    TimePart("idle", "idle", "idle", "░"),
)
"""The parts in order of precedence."""

LABELS = {part.name: part.label for part in PARTS}
