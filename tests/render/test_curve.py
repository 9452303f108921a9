"""Bars and curves drawn with characters: every amount and point in its cell."""

from hypothesis import given
from hypothesis import strategies as st

from tracekit.render._bars import Part, share_bar, stacked_bar
from tracekit.render._curves import Curve, RateCurve, curve_lines, rate_curve_lines

MS = 1_000_000


def drawn(*curves, width=28):
    return [line.plain for line in curve_lines(curves, width)]


def test_a_narrow_range_does_not_begin_at_zero():
    lines = drawn(Curve("x", [90 * MS, 100 * MS], [50.0, 100.0]), width=48)
    assert lines[-1].split() == ["90.0", "ms", "95.0", "ms", "100.0", "ms"]
    assert lines[0] == "100 % ┤" + " " * 39 + "•"
    assert lines[5] == " 50 % ┤" + "•" * 39
    assert lines[10] == "  0 % ┤"


def test_several_curves_have_letters():
    """A curve is drawn from its first value to its maximum."""
    fast = Curve("fast\x1b", [4 * MS], [100.0])
    slow = Curve("slow", [10 * MS], [100.0])
    lines = drawn(fast, slow)
    assert lines[0] == "100 % ┤" + " " * 7 + "a" + " " * 11 + "b"
    assert lines[9] == "      │" + " " * 7 + "a" + " " * 11 + "b"
    assert lines[10] == "  0 % ┤"
    assert lines[-2:] == ["       a fast\\x1b", "       b slow"]
    assert all(len(line) <= 28 for line in lines)


def test_one_value():
    for value_ns in (0, 5):
        lines = drawn(Curve("x", [value_ns], [100.0]))
        assert [line[7:] for line in lines[:11]] == ["•"] * 10 + [""]


def drawn_rates(*curves):
    lines = rate_curve_lines(curves, 25, lambda size: f"{size:.0f}", lambda rate: f"{rate:.0f}")
    return [line.plain for line in lines]


def test_several_rate_curves_have_letters_and_the_first_is_seen():
    lines = drawn_rates(RateCurve("up\x1b", [1, 16], [4, 8]), RateCurve("low", [1, 16], [4, 0]))
    assert (lines[0][:3], lines[0][-1]) == ("8 ┤", "a")
    assert lines[5][3] == "a"
    assert lines[10].endswith("b")
    assert lines[-2:] == ["   a up\\x1b", "   b low"]


def test_one_size_and_no_rate():
    assert drawn_rates(RateCurve("x", [8], [0]))[10] == "0 ┤•"


def cells(amounts, width):
    bar = stacked_bar([Part(a, g, "") for a, g in zip(amounts, "abcd", strict=False)], width).plain
    assert len(bar) == width
    return [bar.count(glyph) for glyph in "abcd"[: len(amounts)]]


def test_cells_are_shared_out_by_amount():
    assert cells([50, 25, 25, 0], 8) == [4, 2, 2, 0]
    assert cells([1, 1, 1], 10) == [4, 3, 3]
    assert cells([0, 0], 5) == [0, 0]


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=4), st.integers(0, 200))
def test_cells_always_add_up(amounts, width):
    counts = cells(list(amounts), width)
    assert sum(counts) == (width if sum(amounts) else 0)
    assert all(count == 0 for count, amount in zip(counts, amounts, strict=True) if amount == 0)


def test_a_share_is_drawn_in_eighths():
    assert share_bar(50, 8).plain == "████    "
    assert share_bar(100 / 64, 8).plain == "▏       "
    assert share_bar(1e-7, 8).plain == "▏       "
    assert share_bar(0, 8).plain == share_bar(None, 8).plain == "        "
    assert share_bar(150, 4).plain == "████"
