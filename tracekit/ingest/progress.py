"""Progress of reading a trace."""

from __future__ import annotations

from msgspec import Struct


class Progress(Struct, frozen=True):
    """Progress of reading a file, in bytes on disk."""

    path: str
    bytes_read: int
    bytes_total: int
    event_count: int
