"""Which ranks are traced: `--ranks 0,8,16-23`, `first-of-node` or `all`."""

from __future__ import annotations

import re

from tracekit.errors import UsageError

from ..process.distributed import Place

ALL_UP_TO = 8
"""How many ranks are all traced unless something else is asked for."""

ALL = "all"
FIRST_OF_NODE = "first-of-node"

_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def check(text: str) -> str:
    """Return a choice of ranks as it was given.

    Raises:
        UsageError: it is none.
    """
    if text not in (ALL, FIRST_OF_NODE):
        _bounds(text)
    return text


def is_traced(choice: str | None, place: Place) -> bool:
    """Tell whether a rank leaves a trace.

    Args:
        choice: what was asked for; None is all ranks of a small job, else the first of each node.
        place: the rank.
    """
    chosen = choice or default(place.world_size)
    if chosen == ALL:
        return True
    if chosen == FIRST_OF_NODE:
        return place.local_rank == 0
    return any(first <= place.rank <= last for first, last in _bounds(chosen))


def default(world_size: int) -> str:
    """Return what is chosen for a job of so many ranks."""
    return ALL if world_size <= ALL_UP_TO else FIRST_OF_NODE


def _bounds(text: str) -> list[tuple[int, int]]:
    bounds = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise UsageError(
                f"--ranks is {text!r}, which is no choice of ranks",
                hint="for example 0,8,16-23, or first-of-node, or all",
            )
        bounds.append((first, last))
    return bounds
