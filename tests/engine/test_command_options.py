"""Options of engines on commands that read traces."""

import pytest
from run_of_ranks import write_ranks

from tracekit.errors import TraceError

SQL = "SELECT rank, count(*) AS events FROM event JOIN trace USING (trace_id) GROUP BY 1 ORDER BY 1"


@pytest.mark.parametrize(
    "command",
    [
        ("query", "timeline"),
        pytest.param(("sql",), marks=pytest.mark.nightly("differs from query only in the output")),
    ],
    ids=lambda command: command[0],
)
def test_an_engine_prints_the_same(command, tmp_path, cli):
    write_ranks(tmp_path / "run", 2)
    statement = (SQL,) if command == ("sql",) else ()
    arguments = (*command, str(tmp_path / "run"), *statement, "--format", "csv", "--no-cache")
    engine = ("--engine", "serial", "--workers", "2", "--memory", "600MB")
    plain = cli(*arguments)
    done = cli(*arguments, *engine)
    assert (done.exit_code, done.stdout) == (plain.exit_code, plain.stdout) == (0, plain.stdout)
    # Only an engine skips unreadable ranks.
    (tmp_path / "run/rank2.json").write_bytes(b"no trace at all")
    done = cli(*arguments, *engine)
    assert done.exit_code == TraceError.exit_code
    assert done.stdout
    assert "rank2.json" in done.stderr
