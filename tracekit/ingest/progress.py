"""Progress of reading a trace."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of reading a file, in bytes on disk."""

    path: str
    bytes_read: int
    bytes_total: int
    event_count: int
