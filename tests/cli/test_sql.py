"""`tracekit sql`: sources of the statement, and output."""

import io
import json
import sys

import pytest

from tracekit.cli.sql import split_arguments
from tracekit.errors import UsageError


def test_a_statement_is_run_and_shown_in_base_units(tracekit_command, fake_trace):
    outcome = tracekit_command("sql", "a.json", "b.json", "SELECT max(dur_ns) AS dur_ns FROM event")
    assert outcome.stdout.splitlines() == [" dur_ns", "───────", "1500000"]
    assert fake_trace.opened_with["paths"] == ("a.json", "b.json")
    assert fake_trace.opened_with["is_unsafe"] is False


def test_unsafe_is_passed_on(tracekit_command, fake_trace):
    tracekit_command("sql", "x", "SELECT 1", "--unsafe", "--no-cache")
    assert fake_trace.opened_with["is_unsafe"] is True
    assert fake_trace.opened_with["cache"] is False


@pytest.mark.parametrize("arguments", [["x"], ["x", "-"]])
def test_a_pipe_holds_the_statement(tracekit_command, monkeypatch, arguments):
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT count(*) AS n\nFROM event;\n"))
    outcome = tracekit_command("sql", *arguments, "--format", "json")
    assert json.loads(outcome.stdout) == [{"n": 3}]


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
