"""What a view of `tracekit browse` says first: what warns, and why there is nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from browse_by_keyboard import Screen, lines, walk
from traces_by_hand import call, kernel, span

import tracekit

pytest.importorskip("textual", reason="textual is not installed")


def test_a_trace_without_kernels_says_why_there_are_no_rows(
    tiny_trace: Callable[..., Path],
) -> None:
    events = [span("cpu_op", "aten::mm", 0, 40), call(1, 3, 11)]

    async def steps(screen: Screen) -> None:
        assert "no rows" in screen.text
        shown = " ".join(" ".join(lines(screen.text)).split())
        assert reason in shown
        # What was searched for in vain has no rows for another reason.
        empty = await screen.press("3", "slash", *"zzz", "enter")
        assert "no rows" in empty
        assert reason not in " ".join(lines(empty))

    with tracekit.open(tiny_trace(events), cache=False) as opened:
        (reason,) = set(opened.query("unrecorded").column("reason"))
        walk(opened, steps)


def test_health_shows_first_what_warns(tiny_trace: Callable[..., Path]) -> None:
    text = json.dumps({"traceEvents": [kernel("k", 0, 5), kernel("k", 9, 12)]})[:-60]

    async def steps(screen: Screen) -> None:
        shown = [line.split()[:2] for line in lines(await screen.press("7"))[2:]]
        assert [metric for _, metric in shown[: len(warned)]] == warned

    with tracekit.open(tiny_trace(text), cache=False) as opened:
        health = opened.health().to_dicts()
        warned = [row["metric"] for row in health if row["severity"] == "warn"]
        assert warned
        assert [row["metric"] for row in health[: len(warned)]] != warned
        walk(opened, steps)
