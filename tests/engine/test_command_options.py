"""Options of engines on commands that read traces."""

from run_of_ranks import write_ranks

from tracekit.errors import TraceError


def test_an_engine_prints_the_same(tmp_path, cli):
    write_ranks(tmp_path / "run", 2)
    arguments = ("query", "timeline", tmp_path / "run", "--format", "csv", "--no-cache")
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
