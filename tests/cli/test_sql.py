"""`tracekit sql`: sources of the statement, streamed rows of any number, and limits."""

import subprocess
import sys
from collections import deque

import pytest

import tracekit
from tracekit.cli.commands.sql import split_arguments
from tracekit.errors import QueryError, UsageError


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


@pytest.fixture(autouse=True)
def has_asked_before(keep_stores, sample_trace, tmp_path):
    """Cache the store of the sample with an arbitrary query."""
    keep_stores(tmp_path / "cache", sample_trace)


def test_a_table_for_people_has_a_thousand_rows(cli, sample_trace):
    done = cli("sql", sample_trace, "SELECT range AS n FROM range(5000)")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 1_002)
    assert done.stderr == "only the first 1,000 rows are shown (--limit)\n"
    done = cli("sql", sample_trace, "SELECT range AS n FROM range(1000)")
    assert (len(done.stdout.splitlines()), done.stderr) == (1_002, "")
    done = cli("sql", "--limit", "1200", sample_trace, "SELECT range AS n FROM range(5000)")
    assert len(done.stdout.splitlines()) == 1_202


@pytest.mark.parametrize("form", ["json", "csv", "csv_plain"])
def test_formats_for_programs_have_all_rows_up_to_the_limit(cli, sample_trace, form):
    sql = "SELECT range AS n FROM range(2500)"
    done = cli("sql", "--format", form, sample_trace, sql)
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(done.json() if form == "json" else done.stdout.splitlines()[1:]) == 2_500
    done = cli("sql", "--format", form, "--limit", "7", sample_trace, sql)
    assert len(done.json() if form == "json" else done.stdout.splitlines()[1:]) == 7
    assert done.stderr == "only the first 7 rows are shown (--limit)\n"


@pytest.mark.nightly("measures memory")
def test_memory_does_not_grow_with_the_rows(sample_trace, tmp_path):
    """100 MB of text go through; nearly as much memory more than for 100 rows would be holding."""
    script = (
        "import resource, sys; from tracekit.cli._main import main; "
        "main(['sql', '--format', 'csv', *sys.argv[1:]]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    peaks = []
    for rows in (100, 100_000):
        sql = f"SELECT range AS n, repeat('x', 1000) AS text FROM range({rows})"
        done = subprocess.run(
            [sys.executable, "-c", script, str(sample_trace), sql],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": "", "TRACEKIT_CACHE_DIR": str(tmp_path / "cache")},
            check=True,
        )
        unit = 1 if sys.platform == "darwin" else 1 << 10
        peaks.append(int(done.stderr) * unit)
    assert peaks[1] - peaks[0] < 70 << 20


def test_a_timeout_while_rows_are_read(opened, sample_trace):
    """A statement with infinite rows also ends, and the connection is usable afterwards."""
    trace = opened(sample_trace)
    stream = trace.stream_sql("FROM range(1000000000000)", timeout_s=0.5)
    with pytest.raises(QueryError, match=r"took longer than 0.5 s"):
        deque(stream.rows, maxlen=0)
    assert trace.sql("SELECT 1").rows == [(1,)]


def test_exact_types_are_streamed_too(cli, sample_trace):
    sql = (
        "SELECT TIMESTAMP_NS '2026-01-31 12:00:00.123456789' AS at, INTERVAL 1 MONTH AS every, "
        "range AS n FROM range(1500)"
    )
    rows = cli("sql", "--format", "json", sample_trace, sql).json()
    assert rows[1_499] == {"at": "2026-01-31 12:00:00.123456789", "every": "1 month", "n": 1_499}


def test_an_error_after_the_first_rows(cli, sample_trace):
    sql = "SELECT CASE WHEN range < 200000 THEN range ELSE error('stop') END FROM range(300000)"
    done = cli("sql", "--format", "csv", sample_trace, sql)
    assert done.exit_code == 5
    assert "Traceback" not in done.stderr
    assert "stop" in done.stderr


def test_spilled_data_is_limited(sample_trace, monkeypatch):
    monkeypatch.setenv("TRACEKIT_SPILL_LIMIT", "20MB")
    monkeypatch.setenv("TRACEKIT_MEMORY_LIMIT", "50MB")
    with tracekit.open(sample_trace) as trace, pytest.raises(QueryError) as caught:
        trace.sql("SELECT hash(range) AS h FROM range(20_000_000) ORDER BY h")
    assert "TRACEKIT_SPILL_LIMIT" in (caught.value.hint or "")
