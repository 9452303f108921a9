"""Curves drawn with characters: every point on its row and column."""

from __future__ import annotations

from tracekit.render._curves import Curve, curve_lines

MS = 1_000_000


def drawn(*curves: Curve, width: int = 28) -> list[str]:
    return [line.plain for line in curve_lines(curves, width)]


def test_a_curve_on_paper() -> None:
    """A half is at most 10 ms, the rest at most 20 ms: 20 columns are 1 ms each."""
    curve = Curve("x", [5 * MS, 10 * MS, 20 * MS], [20.0, 50.0, 100.0])
    assert drawn(curve) == [
        "100 % ┤                   •",
        "      │                   •",
        "      │                   •",
        "      │                   •",
        "      │                   •",
        " 50 % ┤         ••••••••••",
        "      │         •",
        "      │         •",
        "      │    •••••",
        "      │    •",
        "  0 % ┤",
        "      └────────────────────",
        "       0 10.000 ms 20.000 ms",
    ]


def test_a_narrow_range_does_not_begin_at_zero() -> None:
    lines = drawn(Curve("x", [90 * MS, 100 * MS], [50.0, 100.0]), width=48)
    assert lines[-1].split() == ["90.000", "ms", "95.000", "ms", "100.000", "ms"]
    assert lines[0] == "100 % ┤" + " " * 39 + "•"
    assert lines[5] == " 50 % ┤" + "•" * 39
    assert lines[10] == "  0 % ┤"


def test_several_curves_have_letters() -> None:
    """A curve is drawn from its first value to where it has all of them."""
    fast = Curve("fast\x1b", [4 * MS], [100.0])
    slow = Curve("slow", [10 * MS], [100.0])
    lines = drawn(fast, slow)
    assert lines[0] == "100 % ┤" + " " * 7 + "a" + " " * 11 + "b"
    assert lines[9] == "      │" + " " * 7 + "a" + " " * 11 + "b"
    assert lines[10] == "  0 % ┤"
    assert lines[-2:] == ["       a fast\\x1b", "       b slow"]
    assert all(len(line) <= 28 for line in lines)


def test_one_value() -> None:
    for value_ns in (0, 5):
        lines = drawn(Curve("x", [value_ns], [100.0]))
        assert [line[7:] for line in lines[:11]] == ["•"] * 10 + [""]
