"""What every viewer is told: groups of tracks, slices, marks, counters; and who writes it down."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Slice(NamedTuple):
    """One slice of a track; of a mark, the duration is 0.

    Attributes:
        start_ns: start on the common time axis, ns.
        dur_ns: duration, ns.
        name: its name.
        category: its category, or None.
        event_id: the event in the store, or None.
        args: its arguments in the file, as JSON, or None.
        extra: its further members in the file, as JSON, or None.
        facts: what tracekit knows of it, as a JSON object, or None.
        arrows: numbers of the arrows that begin here, and the negated ones of those that end here.
    """

    start_ns: int
    dur_ns: int
    name: str
    category: str | None = None
    event_id: int | None = None
    args: str | None = None
    extra: str | None = None
    facts: str | None = None
    arrows: list[int] | None = None


class Writer(Protocol):
    """One format of output."""

    slice_count: int

    def group(self, name: str, parent: int = 0, rank: int = 0, about: str = "") -> int:
        """Write a group of tracks inside of another one (0: of none); return its number."""

    def track(self, name: str, parent: int, rank: int, about: str = "") -> Any:
        """Return a track for slices, at the place `rank` of its group."""

    def slice(self, track: Any, one: Slice) -> None:
        """Write a slice; those of a track come by start, of equal starts the longer first."""

    def finish(self, track: Any) -> None:
        """Say that no more slices come on a track."""

    def instant(self, track: Any, one: Slice) -> None:
        """Write a mark on a track."""

    def counter(self, name: str, parent: int, rank: int, unit: str) -> Any:
        """Return a track of numbers."""

    def value(self, counter: Any, ts_ns: int, number: float) -> None:
        """Write the value that a counter has from now on."""

    def flush(self) -> None:
        """Hand on what has been gathered; nothing comes behind it."""
