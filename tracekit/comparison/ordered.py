"""Latencies in order, whole or thinned: so few that a baseline can keep them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ordered:
    """The values of a series in order; of a long one those that stand at some places.

    `count` is how many values the series has, `values` are those that are known, the smallest
    first, and `places` says where each stands, from 0; None where all are known.
    """

    count: int
    values: Sequence[int]
    places: Sequence[int] | None = None

    @classmethod
    def of(cls, series: Iterable[int]) -> Ordered:
        """Put values in order.

        Args:
            series: values in any order.
        """
        values = sorted(series)
        return cls(len(values), values)

    def at(self, place: int) -> int:
        """Return the value at a place.

        Args:
            place: from 0, one that is known.

        Raises:
            KeyError: the place is none, or was left out.
        """
        if self.places is None:
            if 0 <= place < self.count:
                return self.values[place]
        else:
            low = bisect_left(self.places, place)
            if low < len(self.places) and self.places[low] == place:
                return self.values[low]
        raise KeyError(place)

    def thinned(self, places: Iterable[int]) -> Ordered:
        """Return the series with the values of some places alone.

        Args:
            places: those to keep, from 0.
        """
        kept = sorted(set(places))
        return Ordered(self.count, [self.at(place) for place in kept], kept)

    def scaled(self, factor: float) -> Ordered:
        """Return the series with every value so many times as large.

        Args:
            factor: more than 0; the order stays.
        """
        return Ordered(self.count, [round(value * factor) for value in self.values], self.places)
