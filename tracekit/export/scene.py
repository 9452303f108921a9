"""What every viewer is told: groups of tracks, slices, marks, counters; and who writes it down."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

Row = tuple[Any, ...]


class Slice(NamedTuple):
    """One slice of a track, as the columns of a row name it; of a mark, the duration is 0.

    Rows may begin with other columns, and may end before the last of these.

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
        is_inner: on a flat track, it is a part of the slice before it that is none.
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
    is_inner: bool = False


class Writer(Protocol):
    """One format of output."""

    @property
    def slice_count(self) -> int:
        """Slices written so far."""

    def group(self, name: str, parent: int = 0, rank: int = 0, about: str = "") -> int:
        """Write a group of tracks inside of another one (0: of none); return its number."""

    def track(
        self, name: str, parent: int, rank: int, about: str = "", *, is_flat: bool = False
    ) -> Any:
        """Return a track for slices, at the place `rank` of its group.

        On a flat one slices that overlap lie below one another, also where one holds another.
        """

    def slices(self, track: Any, rows: Iterable[Row], skip: int) -> int:
        """Write slices; those of a track come by start, of equal starts the longer first.

        Args:
            track: where they are.
            rows: their columns are those of Slice, behind others.
            skip: how many others there are.

        Returns:
            How many they were.
        """

    def finish(self, track: Any) -> None:
        """Say that no more slices come on a track."""

    def instants(self, track: Any, rows: Iterable[Row], skip: int) -> int:
        """Write marks on a track, as slices() takes slices; return how many they were."""

    def counter(self, name: str, parent: int, rank: int, unit: str) -> Any:
        """Return a track of numbers."""

    def values(self, counter: Any, rows: Iterable[Row], skip: int) -> None:
        """Write the values of a counter: behind others, from when on, ns, and the number."""

    def flush(self) -> None:
        """Hand on what has been gathered; nothing comes behind it."""
