"""`breakdown`, `ingest`, and `ingest cache`: their calls of the library and their output."""

import sys
from dataclasses import dataclass

import pytest

import tracekit
from tracekit.cli import _progress
from tracekit.cli._open import closed_meanwhile
from tracekit.cli._progress import progress_bar
from tracekit.errors import StoreError


def test_a_breakdown_that_cannot_be_shown_closes_its_trace(kernels):
    trace = tracekit.open(kernels, cache=False)
    with pytest.raises(ValueError, match="no room"), closed_meanwhile(trace):
        raise ValueError("no room")
    with pytest.raises(StoreError, match="closed"):
        trace.sql("SELECT 1")


def test_ingest_reports_on_stderr(cli, tiny_trace, kernels, tmp_path):
    events = '{"ph": "X", "name": "a"b", "ts": 1, "dur": 1}, 5, 6, {"ph": "X", "ts": 2, "dur": 1}'
    odd = tiny_trace(f'{{"traceEvents": [{events}, {{"ph', name="x\x1b[2J.json")
    outcome = cli("ingest", kernels, odd, "-o", tmp_path / "run.duckdb")
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    *_, line, total = outcome.stderr.splitlines()
    assert line.startswith("x\\x1b[2J.json: unknown rank, 2 events, 1 repaired, 3 rejected")
    assert total == f"{tmp_path / 'run.duckdb'}: 2 traces, 12 events"


def test_cache_lists_clears_and_locates(cli, kernels, tmp_path):
    folder = tmp_path / "cache"
    assert cli("query", "timeline", kernels).exit_code == 0
    (row,) = cli("ingest", "cache", "list", "--format", "json").json()
    assert row["source_path"] == str(kernels)
    assert cli("ingest", "cache", "path").stdout == f"{folder}\n"
    outcome = cli("ingest", "cache", "clear")
    assert (outcome.stdout, outcome.stderr) == ("", f"removed 1 cached store from {folder}\n")
    assert cli("ingest", "cache", "list", "--format", "json").json() == []


@dataclass(frozen=True)
class Progress:
    path: str = "/runs/rank0.json.gz"
    bytes_read: int = 50_000_000
    bytes_total: int = 100_000_000
    event_count: int = 1


def test_there_is_no_bar_without_a_terminal():
    with progress_bar() as progress:
        assert progress is None


def test_the_bar_comes_after_half_a_second_and_goes_away(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bar() as progress:
        now[0] = 0.4
        progress(Progress())
        assert capsys.readouterr().err == ""
        now[0] = 0.6
        progress(Progress())
        progress(Progress(path="/runs/[red]\x1b[2J.json"))
    drawn = capsys.readouterr().err
    assert "50.0/100.0 MB" in drawn
    assert "\x1b[2J" not in drawn
