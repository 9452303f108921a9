"""Names in little room: those that begin alike are cut so that they are still told apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tracekit.render._text import cell_width, shorten

_LEAST_OWN = 30
"""Of a name that others only go on from, so many characters of its end are shown at least."""

_WORD_END = re.compile(r"[\w.]*$")


def shortened(names: Sequence[str], width: int) -> list[str]:
    """Return names in at most `width` cells each, in their order.

    A name is cut at its end; where the ends of two would be cut so that both look the same, the
    middle of what they have in common is left out instead.
    """
    short = [shorten(name, width) for name in names]
    owners = defaultdict(set)
    for name, text in zip(names, short, strict=True):
        owners[text].add(name)
    alike = {name for found in owners.values() if len(found) > 1 for name in found}
    shared = _shared_starts(alike)
    return [
        _without_middle(name, shared[name], width) if name in alike else text
        for name, text in zip(names, short, strict=True)
    ]


def _shared_starts(names: Iterable[str]) -> dict[str, int]:
    """Return the length of the longest beginning that each shares with another one of them."""
    shared: dict[str, int] = defaultdict(int)
    # Of sorted texts, a neighbour has it.
    for one, other in pairwise(sorted(names)):
        pairs = enumerate(zip(one, other, strict=False))
        length = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
        shared[one] = max(shared[one], length)
        shared[other] = max(shared[other], length)
    return shared


def _without_middle(name: str, shared: int, width: int) -> str:
    """Return how a name begins, and what of it is its own: from the word in which it differs."""
    least = min(_LEAST_OWN, width * 3 // 5)
    start = min(shared, max(len(name) - least, 0))
    found = _WORD_END.search(name[:start])
    word = len(found[0]) if found else 0
    # A word that is too long would leave no room for what differs.
    if start == shared and word < start and word <= least // 2:
        start -= word
    head = shorten(name[:start], max(width - cell_width(name[start:]), width * 2 // 5))
    return head + shorten(name[start:], width - cell_width(head))
