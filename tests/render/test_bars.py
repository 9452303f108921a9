"""Bars: their cells add up, whatever the amounts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tracekit.render._bars import Part, share_bar, stacked_bar


def cells(amounts: list[float], width: int) -> list[int]:
    bar = stacked_bar([Part(a, g, "") for a, g in zip(amounts, "abcd", strict=False)], width).plain
    assert len(bar) == width
    return [bar.count(glyph) for glyph in "abcd"[: len(amounts)]]


def test_cells_are_shared_out_by_amount() -> None:
    assert cells([50, 25, 25, 0], 8) == [4, 2, 2, 0]
    assert cells([1, 1, 1], 10) == [4, 3, 3]
    assert cells([0, 0], 5) == [0, 0]


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=4), st.integers(0, 200))
def test_cells_always_add_up(amounts: list[int], width: int) -> None:
    counts = cells(list(amounts), width)
    assert sum(counts) == (width if sum(amounts) else 0)
    assert all(count == 0 for count, amount in zip(counts, amounts, strict=True) if amount == 0)


def test_a_share_is_drawn_in_eighths() -> None:
    assert share_bar(50, 8).plain == "████    "
    assert share_bar(100 / 64, 8).plain == "▏       "
    assert share_bar(1e-7, 8).plain == "▏       "
    assert share_bar(0, 8).plain == share_bar(None, 8).plain == "        "
    assert share_bar(150, 4).plain == "████"
