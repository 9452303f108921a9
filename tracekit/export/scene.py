"""What every viewer is told: groups of tracks, slices, marks, counters; and who writes it down."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

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


BLOCK_BYTES = 1 << 20
"""So much is gathered before it is handed on, bytes."""

_LONG = re.compile(r"[0-9]{19}")


def quoted_if_long(text: str | None) -> str | None:
    """Return JSON as it is, or as a JSON text where so many digits follow one another in it.

    Viewers show that as it is; Perfetto's engine reads another number where one is beyond 64 bits.
    """
    if text is None or not _LONG.search(text):
        return text
    return json.dumps(text, ensure_ascii=False)


def filled(text: str, values: Mapping[str, object]) -> str:
    """Return SQL with values in place of its words in capitals that are among their names."""
    return re.sub(r"\b[A-Z_]+\b", lambda match: str(values.get(match[0], match[0])), text)


class Writer(ABC):
    """One format of output, gathered and handed on in blocks."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._parts: list[bytes] = []
        self._size = 0
        self.slice_count = 0

    @abstractmethod
    def group(self, name: str, parent: int = 0, rank: int = 0, about: str = "") -> int:
        """Write a group of tracks inside of another one (0: of none); return its number."""

    @abstractmethod
    def track(
        self, name: str, parent: int, rank: int, about: str = "", *, is_flat: bool = False
    ) -> Any:
        """Return a track for slices, at the place `rank` of its group.

        On a flat one slices that overlap lie below one another, also where one holds another.
        """

    def slices(self, track: Any, rows: Iterable[Row], skip: int) -> int:
        """Write slices; those of a track come by start, of equal starts the longer first.

        Columns of rows are those of Slice, behind `skip` others.

        Returns:
            How many they were.
        """
        before = self.slice_count
        for row in rows:
            self._slice(track, Slice(*row[skip:]))
            self.slice_count += 1
        return self.slice_count - before

    @abstractmethod
    def _slice(self, track: Any, one: Slice) -> None: ...

    def finish(self, track: Any) -> None:  # noqa: B027 - slices of some formats tell their ends
        """Say that no more slices come on a track."""

    @abstractmethod
    def instants(self, track: Any, rows: Iterable[Row], skip: int) -> None:
        """Write marks on a track, as slices() takes slices."""

    @abstractmethod
    def counter(self, name: str, parent: int, rank: int, unit: str) -> bytes:
        """Return what the values of a track of numbers begin with."""

    @abstractmethod
    def values(self, counter: bytes, rows: Iterable[Row], skip: int) -> None:
        """Write the values of a counter: behind others, from when on, ns, and the number."""

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size >= BLOCK_BYTES:
            self._hand_on()

    def _hand_on(self) -> None:
        self._write(b"".join(self._parts))
        self._parts.clear()
        self._size = 0

    def close(self) -> None:
        """Hand on what has been gathered; nothing comes behind it."""
        self._hand_on()
