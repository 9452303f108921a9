"""Find the largest batch that fits, with as few tries as doubling and bisection need."""

from __future__ import annotations

from collections.abc import Callable


def largest_batch(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest batch size that fits, or 0 if not even one sequence does.

    Doubles from 1 until a size does not fit, then halves the distance between the largest that did
    and the smallest that did not.

    Args:
        fits: tries a size; what fits is taken to fit in every smaller size too.
        limit: no larger size is tried.
    """
    fitting, too_large = 0, limit + 1
    while too_large - fitting > 1:
        if too_large > limit:
            size = min(max(1, 2 * fitting), limit)
        else:
            size = (fitting + too_large) // 2
        if fits(size):
            fitting = size
        else:
            too_large = size
    return fitting
