"""The line on the terminal, and silence elsewhere."""

from __future__ import annotations

import io

import pytest

from tracekit.collectors.serving.load.plan import LoadProgress
from tracekit.collectors.serving.load.progress import ProgressLine, line_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


LOAD = LoadProgress("load", 1000, 412, 0, 588, 52_736, 4_000_000_000)


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (LOAD, "load: 412 of 1000 requests, 588 in flight, 13,184 tokens/s"),
        (
            LoadProgress("warm-up", 8, 2, 1, 6, 0, 0),
            "warm-up: 2 of 8 requests, 6 in flight, 0 tokens/s, 1 failed",
        ),
        (
            LoadProgress("trace", 1000, 1, 0, 9, 128, 1_000_000_000),
            "profile: 1 of 1000 requests, 9 in flight, 128 tokens/s",
        ),
        (LoadProgress("trace", 0, 0, 0, 0, 0, 7_000_000_000), "waiting for traces, 7 s"),
    ],
)
def test_what_the_line_says(state: LoadProgress, line: str) -> None:
    assert line_of(state) == line


def test_a_terminal_gets_one_line_that_is_wiped() -> None:
    terminal = Terminal()
    with ProgressLine(terminal) as line:
        line(LOAD)
        line(LOAD)
    text = terminal.getvalue()
    assert text.count("412 of 1000") == 1
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")


def test_a_file_gets_nothing() -> None:
    file = io.StringIO()
    with ProgressLine(file) as line:
        line(LOAD)
    assert file.getvalue() == ""
