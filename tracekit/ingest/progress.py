"""How far the reading of a trace is, for whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the reading of a file is; bytes as it lies on the disk."""

    path: str
    bytes_read: int
    bytes_total: int
    event_count: int
