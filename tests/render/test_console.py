"""Colour only on a terminal, NO_COLOR honoured, any encoding."""

import io
import os

import pytest

from tracekit.render import renderer
from tracekit.render._console import make_console


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def drawn(stream, data):
    renderer("table")(data, stream)
    return stream.getvalue()


def test_a_terminal_gets_colour(breakdown):
    assert "\x1b[32m" in drawn(Terminal(), breakdown)


def test_no_color_takes_it_away(breakdown, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = drawn(Terminal(), breakdown)
    assert "\x1b[3" not in text


def test_a_pipe_gets_no_escape_even_when_colour_is_forced(breakdown, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in drawn(io.StringIO(), breakdown)


def test_the_width_of_a_pipe_is_100_or_columns(monkeypatch):
    assert make_console(io.StringIO()).width == 100
    monkeypatch.setenv("COLUMNS", "140")
    assert make_console(io.StringIO()).width == 140
    monkeypatch.setenv("COLUMNS", "5")
    assert make_console(io.StringIO()).width == 72
    monkeypatch.setenv("COLUMNS", "wide")
    assert make_console(io.StringIO()).width == 100


def test_a_terminal_without_a_size_is_100_wide(monkeypatch):
    assert make_console(Terminal()).width == 100
    size = os.terminal_size((0, 0))
    monkeypatch.setattr(os, "get_terminal_size", lambda _: size)
    monkeypatch.setattr(Terminal, "fileno", lambda _: 1)
    assert make_console(Terminal()).width == 100


def test_an_encoding_without_blocks_gets_plain_characters(breakdown):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    only = {"timeline": breakdown["timeline"]}
    renderer("table")(only, stream)
    stream.flush()
    text = raw.getvalue().decode("ascii")
    assert "# compute  = exposed comm  ~ exposed memcpy  . idle" in text


@pytest.mark.parametrize("columns", ["12345", "999999999", "9" * 5000])
def test_a_width_that_no_terminal_has(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert make_console(io.StringIO()).width == 9999
