"""The line on the terminal, and silence elsewhere."""

from __future__ import annotations

import io

import pytest

from tracekit.collectors.bench.point import Point
from tracekit.collectors.progress import ProgressLine
from tracekit.collectors.serving.plan import LoadProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (
            LoadProgress("load", 1000, 412, 0, 588, 52_736, 4_000_000_000),
            "load: 412 of 1000 requests, 588 in flight, 13,184 tokens/s",
        ),
        (
            LoadProgress("warm-up", 8, 2, 1, 6, 0, 0),
            "warm-up: 2 of 8 requests, 6 in flight, 0 tokens/s, 1 failed",
        ),
        (
            LoadProgress("trace", 1000, 1, 0, 9, 128, 1_000_000_000),
            "profile: 1 of 1000 requests, 9 in flight, 128 tokens/s",
        ),
        (LoadProgress("trace", 0, 0, 0, 0, 0, 7_000_000_000), "waiting for traces, 7 s"),
        (Point("gemm", "mm", dtype="bf16", m=2, n=3, k=4), "mm bf16 2×3×4"),
        (Point("memcpy", "h2d", memory="pinned", message_bytes=4096), "h2d pinned 4.10 kB"),
        (Point("launch", "graph_replay", series="kernels_10"), "graph_replay kernels_10"),
    ],
)
def test_states_in_words(state: object, line: str) -> None:
    assert str(state) == line


def test_a_terminal_gets_one_line_that_is_wiped() -> None:
    terminal = Terminal()
    with ProgressLine(terminal) as line:
        line.show("1 of 9", "load")
        line.show("1 of 9", "load")
        line.show("2 of 9", "load")  # too early
        line.show("1 of 3", "trace")
    assert terminal.getvalue() == "\r\x1b[K1 of 9\r\x1b[K1 of 3\r\x1b[K"


def test_a_file_gets_nothing() -> None:
    file = io.StringIO()
    with ProgressLine(file) as line:
        line.show("1 of 9", "load")
    assert file.getvalue() == ""
