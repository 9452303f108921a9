"""Names that no disk or database takes are named in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LONG = "n" * 5_000


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (("breakdown", LONG), 3),
        (("breakdown", f"{LONG}.duckdb"), 3),
        (("ingest", "x", "-o", f"{LONG}.duckdb"), 3),
        ((LONG,), 2),
    ],
)
def test_a_long_name(cli: Callable[..., Any], arguments: tuple[str, ...], exit_code: int) -> None:
    done = cli(*arguments)
    assert (done.exit_code, done.stdout) == (exit_code, "")
    assert done.stderr.startswith("error: nnn")
    assert "File name too long" in done.stderr
    assert len(done.stderr) < 300


def test_half_a_character_in_a_run_id(
    cli: Callable[..., Any], make_run: Callable[..., Path]
) -> None:
    run = make_run("odd", requests=[{"request_id": 1, "outcome": "ok"}], traces=[LONG, "a\0b"])
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(manifest | {"run_id": "a\ud800b"}))
    trace = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    (run / "rank0.json").write_text(json.dumps([trace]))
    for command in (("query", "health"), ("query", "requests"), ("breakdown",)):
        done = cli(*command, run)
        assert (done.exit_code, "Traceback" in done.stderr) == (0, False)
    rows = cli("sql", "--format", "json", run, "SELECT run_id, notes FROM run").json()
    assert rows == [
        {"run_id": "a\ufffdb", "notes": ["run_id held half of a character, now U+FFFD"]}
    ]
    assert cli("sql", "--format", "json", run, "SELECT run_id FROM trace").json() == [
        {"run_id": "a\ufffdb"}
    ]


def test_a_statement_that_is_no_utf_8(cli: Callable[..., Any], sample_trace: Path) -> None:
    done = cli("sql", sample_trace, "SELECT '\udcff'")
    assert (done.exit_code, done.stdout) == (5, "")
    assert done.stderr == "error: the statement holds bytes that are no UTF-8\n"
