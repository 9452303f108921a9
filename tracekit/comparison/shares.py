"""Dividing whole nanoseconds so that the parts add up to the whole."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def apportion(total: int, exact: Sequence[Fraction]) -> list[int]:
    """Return whole numbers that add up to a total, each next to its exact value.

    Every value is rounded down; what is missing to the total then goes, one each, to those that
    lost most by it (the method of largest remainders), among equals to the first. A value that is 0
    stays 0, unless there is no other.

    Args:
        total: the sum of the results.
        exact: the exact values; their sum is less than 1 away from the total, or a little more
            where the total is a difference of rounded numbers.
    """
    whole = [value.numerator // value.denominator for value in exact]
    missing = total - sum(whole)
    open_places = [place for place, value in enumerate(exact) if value] or list(range(len(exact)))
    if not open_places:
        return []
    open_places.sort(key=lambda place: whole[place] - exact[place])
    each, rest = divmod(missing, len(open_places))
    for number, place in enumerate(open_places):
        whole[place] += each + (number < rest)
    return whole


def rounded(value: Fraction) -> int:
    """Return the nearest whole number, halves away from zero."""
    size = (2 * abs(value.numerator) + value.denominator) // (2 * value.denominator)
    return size if value >= 0 else -size
