"""Every command that asks traces takes the options of engines, and answers the same by each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_of_ranks import write_ranks

from tracekit.errors import TraceError

SQL = "SELECT rank, count(*) AS events FROM event JOIN trace USING (trace_id) GROUP BY 1 ORDER BY 1"


@pytest.mark.parametrize(
    "command", [("query", "timeline"), ("sql",)], ids=lambda command: command[0]
)
def test_an_engine_answers_as_without_one(
    command: tuple[str, ...], tmp_path: Path, cli: Callable[..., Any]
) -> None:
    write_ranks(tmp_path / "run", 2)
    statement = (SQL,) if command == ("sql",) else ()
    arguments = (*command, str(tmp_path / "run"), *statement, "--format", "csv", "--no-cache")
    engine = ("--engine", "serial", "--workers", "2", "--memory", "600MB")
    plain = cli(*arguments)
    done = cli(*arguments, *engine)
    assert (done.exit_code, done.stdout) == (plain.exit_code, plain.stdout) == (0, plain.stdout)
    # An engine goes on without what it cannot read, which tells that it was one.
    (tmp_path / "run/rank2.json").write_bytes(b"no trace at all")
    done = cli(*arguments, *engine)
    assert done.exit_code == TraceError.exit_code
    assert done.stdout
    assert "missing: 1 trace could not be read\n" in done.stderr


def test_a_breakdown_that_leaves_no_tables_is_the_same(
    tmp_path: Path, cli: Callable[..., Any]
) -> None:
    write_ranks(tmp_path / "run", 3)
    arguments = ("breakdown", str(tmp_path / "run"), "--format", "json")
    engine = ("--engine", "serial", "--workers", "1")
    cached = cli(*arguments, *engine)
    uncached = cli(*arguments, *engine, "--no-cache")
    assert (uncached.exit_code, uncached.stdout) == (0, cached.stdout)
    full = cli(*arguments, *engine, "--full")
    uncached = cli(*arguments, *engine, "--full", "--no-cache")
    assert (uncached.exit_code, uncached.stdout) == (0, full.stdout)
