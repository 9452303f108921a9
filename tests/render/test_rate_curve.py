"""Rates over sizes drawn with characters: sizes by powers, rates from 0."""

from __future__ import annotations

from tracekit.render._curves import RateCurve, rate_curve_lines


def drawn(*curves: RateCurve) -> list[str]:
    lines = rate_curve_lines(curves, 25, lambda size: f"{size:.0f}", lambda rate: f"{rate:.0f}")
    return [line.plain for line in lines]


def test_a_curve_on_paper() -> None:
    """From 1 to 2^19 in 20 columns: each doubles the size. Ten ninths a column."""
    curve = RateCurve("x", [1, 2**9, 2**19], [0, 10, 10])
    assert drawn(curve) == [
        "10 ┤         •••••••••••",
        "   │        •",
        "   │       •",
        "   │      •",
        "   │     •",
        " 5 ┤",
        "   │    •",
        "   │   •",
        "   │  •",
        "   │ •",
        " 0 ┤•",
        "   └────────────────────",
        "    1     724     524288",
    ]


def test_several_curves_have_letters_and_the_first_is_seen() -> None:
    lines = drawn(RateCurve("up\x1b", [1, 16], [4, 8]), RateCurve("low", [1, 16], [4, 0]))
    assert (lines[0][:3], lines[0][-1]) == ("8 ┤", "a")
    assert lines[5][3] == "a"
    assert lines[10].endswith("b")
    assert lines[-2:] == ["   a up\\x1b", "   b low"]


def test_one_size_and_no_rate() -> None:
    assert drawn(RateCurve("x", [8], [0]))[10] == "0 ┤•"
