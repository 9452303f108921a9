"""How far a bench run is, on a terminal and nowhere else."""

from __future__ import annotations

import io

from tracekit.collectors.bench.point import Point
from tracekit.collectors.bench.progress import ProgressLine

POINT = Point("gemm", "mm", dtype="bf16", m=2, n=3, k=4)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_that_is_wiped() -> None:
    terminal = Terminal()
    with ProgressLine(terminal) as line:
        line.show(0, 5, POINT)
        line.show(0, 5, POINT)
    assert terminal.getvalue() == "\r\x1b[Kgemm: 1 of 5  mm bf16 2×3×4\r\x1b[K"


def test_nothing_elsewhere() -> None:
    stream = io.StringIO()
    with ProgressLine(stream) as line:
        line.show(0, 5, POINT)
    assert stream.getvalue() == ""


def test_points_in_words() -> None:
    copied = Point("memcpy", "h2d", memory="pinned", message_bytes=4096)
    assert str(copied) == "h2d pinned 4.10 kB"
    assert str(Point("launch", "graph_replay", series="kernels_10")) == "graph_replay kernels_10"
