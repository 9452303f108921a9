"""`breakdown`, `ingest`, and `ingest cache`: their calls of the library and their output."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import tracekit.database.cache
import tracekit.database.opening
import tracekit.opening
from tracekit.cli import _progress
from tracekit.cli._open import closed_meanwhile
from tracekit.cli._progress import progress_bar


def test_breakdown_is_one_object(tracekit_command, fake_trace):
    outcome = tracekit_command("breakdown", "a.json", "b.json", "--format", "json")
    data = json.loads(outcome.stdout)
    assert list(data) == ["kernels", "health"]
    assert data["kernels"][0] == {"name": "gemm", "dur_ns": 2_000_000}
    assert fake_trace.opened_with["paths"] == ("a.json", "b.json")


def test_a_breakdown_that_cannot_be_shown_closes_its_trace(fake_trace):
    with pytest.raises(ValueError, match="no room"), closed_meanwhile(fake_trace):
        raise ValueError("no room")
    assert fake_trace.is_closed


def test_ingest_says_on_stderr_what_it_read(tracekit_command, fake_trace, monkeypatch, tmp_path):
    calls = []

    def ingest(paths, output, **settings):
        calls.append((tuple(paths), output, settings))
        return output

    monkeypatch.setattr(tracekit.opening, "ingest", ingest)
    monkeypatch.setattr(tracekit.database.opening, "open_store", lambda _: fake_trace.connection)
    fake_trace.connection.execute(
        "CREATE TABLE trace AS SELECT * FROM (VALUES "
        "(0, 'rank0.json', 0, 1234, 0, 0, false, NULL), "
        "(1, 'x\x1b[2J.json', NULL, 10, 2, 1, true, 'the file ends in an event')"
        ") AS t (trace_id, file_name, rank, event_count, rejected_count, repaired_count, "
        "is_truncated, truncation_reason)"
    )
    fake_trace.connection.execute("CREATE TABLE run (run_id VARCHAR)")
    store = tmp_path / "run.duckdb"
    outcome = tracekit_command("ingest", "a", "b", "-o", str(store), "--force", "--rules", "r.toml")
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    _, odd, total = outcome.stderr.splitlines()
    assert odd.startswith("x\\x1b[2J.json: unknown rank, 10 events, 1 repaired, 2 rejected")
    assert total == f"{store}: 2 traces, 1,244 events"
    settings = {"force": True, "rules": Path("r.toml"), "capture": (), "progress": None}
    assert calls == [(("a", "b"), store, settings)]


@dataclass(frozen=True)
class Cached:
    path: Path
    source_path: str
    size_bytes: int
    modified_s: float


def test_cache_lists_clears_and_tells_its_place(tracekit_command, monkeypatch, tmp_path):
    stores = [Cached(tmp_path / "a.duckdb", "/x/rank0.json", 2_500_000, 0.0)]
    monkeypatch.setattr(tracekit.database.cache, "list_cached", lambda: stores)
    monkeypatch.setattr(tracekit.database.cache, "clear_cache", lambda: 1)
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path))

    listed = json.loads(tracekit_command("ingest", "cache", "list", "--format", "json").stdout)
    assert listed[0]["source_path"] == "/x/rank0.json"
    assert listed[0]["size_bytes"] == 2_500_000
    assert "2.500" in tracekit_command("ingest", "cache", "list").stdout

    outcome = tracekit_command("ingest", "cache", "clear")
    assert (outcome.stdout, outcome.stderr) == ("", f"removed 1 cached store from {tmp_path}\n")
    assert tracekit_command("ingest", "cache", "path").stdout == f"{tmp_path}\n"


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
