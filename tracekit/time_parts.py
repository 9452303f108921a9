"""The parts of a device's time, which add up to its window: compute, exposed work and idle time.

Their definition is that of macro `time_part` and analysis `timeline`; here is how they are named
and drawn, everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

from tracekit.palette import KIND, Colour


class TimePart(NamedTuple):
    """One part: its name in SQL and in names of columns, its kind, its label, and its glyph."""

    name: str
    kind: str
    label: str
    glyph: str

    @property
    def short_label(self) -> str:
        """The label where there is little room, such as ``exposed comm``."""
        return self.name.replace("_", " ")

    @property
    def colour(self) -> Colour:
        """The colour of its kind."""
        return KIND[self.kind]


PARTS = (
    TimePart("compute", "compute", "compute", "█"),
    TimePart("exposed_comm", "comm", "exposed communication", "▓"),
    TimePart("exposed_memcpy", "memcpy", "exposed copies", "▒"),
    TimePart("idle", "idle", "idle", "░"),
)
"""The parts, in the order in which work goes before other work."""

LABELS = {part.name: part.label for part in PARTS}
