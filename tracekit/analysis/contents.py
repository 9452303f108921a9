"""What is in a store, as far as that decides which questions it answers."""

from __future__ import annotations

from typing import NamedTuple


class Contents(NamedTuple):
    """What a store holds, as far as that decides which questions it answers."""

    has_traces: bool
    runs: tuple[str, ...]
    has_requests: bool
    has_benchmarks: bool
