"""Lines of tracekit begin a line of their own, whatever a progress bar has drawn."""

from __future__ import annotations

import io
import re
import sys

import pytest

from tracekit.collectors.progress import write_notice


def test_a_line_does_not_continue_an_open_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    from tqdm import tqdm

    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    with tqdm(total=4, file=written) as bar:
        bar.update()
        bar.refresh()
        write_notice("recorded")
    assert "tracekit: recorded" in re.split("[\r\n]", written.getvalue())
    # The bar is drawn again on the next line.
    assert "1/4" in written.getvalue().split("tracekit: recorded\n")[1]


def test_what_stands_in_place_of_tqdm_is_no_harm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", type("Fake", (), {"tqdm": object()})())
    write_notice("recorded")
    assert capsys.readouterr().err == "tracekit: recorded\n"


def test_nobody_hears_where_stderr_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        write_notice("recorded")
