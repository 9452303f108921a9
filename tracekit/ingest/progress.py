"""How far the reading of a trace is, for whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the reading of a file is.

    Attributes:
        path: the file.
        bytes_read: bytes of the file as it lies on disk that have been read.
        bytes_total: size of the file on disk, bytes.
        event_count: events read so far.
    """

    path: str
    bytes_read: int
    bytes_total: int
    event_count: int
