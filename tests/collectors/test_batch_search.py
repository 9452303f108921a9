"""The search for the largest batch."""

from __future__ import annotations

import pytest

from tracekit.collectors.sweep.run import largest_batch


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 1000])
def test_it_finds_the_largest(limit: int) -> None:
    for largest in range(min(limit, 70) + 1):
        assert largest_batch(lambda size, largest=largest: size <= largest, limit) == largest


def test_it_doubles_and_then_bisects() -> None:
    tried: list[int] = []

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= 11

    assert largest_batch(fits, 1024) == 11
    assert tried == [1, 2, 4, 8, 16, 12, 10, 11]


def test_it_never_goes_past_the_limit() -> None:
    tried: list[int] = []
    assert largest_batch(lambda size: not tried.append(size), 12) == 12
    assert tried == [1, 2, 4, 8, 12]
