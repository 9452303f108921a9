"""`tracekit sql`: sources of the statement, and output."""

import pytest

from tracekit.cli.sql import split_arguments
from tracekit.errors import UsageError


@pytest.mark.parametrize("more", [(), ("-",)])
def test_a_pipe_contains_the_statement(cli, kernels, more):
    stdin = "SELECT count(*) AS n\nFROM event;\n"
    assert cli("sql", kernels, *more, "--format", "json", stdin=stdin).json() == [{"n": 10}]


def test_only_unsafe_statements_read_files(cli, kernels, tmp_path):
    (tmp_path / "x.csv").write_text("a\n1\n")
    statement = f"SELECT a FROM '{tmp_path / 'x.csv'}'"
    assert cli("sql", kernels, statement).exit_code == 5
    assert cli("sql", kernels, statement, "--unsafe", "--format", "json").json() == [{"a": 1}]


@pytest.mark.parametrize(
    ("arguments", "traces", "statement"),
    [
        (("a.json",), ("a.json",), None),
        (("a.json", "b.json"), ("a.json", "b.json"), None),
        (("a.json", "SELECT 1"), ("a.json",), "SELECT 1"),
        (("a.json", "b.json", "-"), ("a.json", "b.json"), "-"),
        (("a.json", ";"), ("a.json",), ";"),
        (("a.json", "my traces/rank 0.json.gz"), ("a.json", "my traces/rank 0.json.gz"), None),
        (("a.json", "FROM\tevent"), ("a.json",), "FROM\tevent"),
        (("runs/*.json", "SELECT '" + "x" * 5000 + "'"), None, None),
    ],
)
def test_the_last_argument_may_be_the_statement(arguments, traces, statement):
    if traces is None:
        traces, statement = arguments[:1], arguments[1]
    assert split_arguments(arguments) == (traces, statement)


def test_a_folder_with_a_space_is_a_folder(tmp_path, monkeypatch):
    (tmp_path / "my run").mkdir()
    monkeypatch.chdir(tmp_path)
    assert split_arguments(("a.json", "my run")) == (("a.json", "my run"), None)


def test_a_statement_needs_a_trace():
    with pytest.raises(UsageError, match="TRACE is missing"):
        split_arguments(("SELECT 1",))
