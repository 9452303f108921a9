"""A fake `Trace` with an in-memory store, to test commands without a trace."""

import importlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

import duckdb
import own_queries
import pytest

from tracekit.analysis.catalog import Catalog, load_catalog
from tracekit.analysis.result import Column, Result
from tracekit.analysis.run import run_analysis, run_sql, stream_sql
from tracekit.cli._main import main

KERNELS_SQL = """\
-- Which kernels held the device longest?
-- The longest first.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   limit       BIGINT = 20  rows; 0 for all
--   min_gap_ns  BIGINT = NULL  shortest gap, ns
--   sort        VARCHAR{total|mean} = total  what to sort by
--   exact       BOOLEAN = true  count every event
-- Columns:
--   name     VARCHAR  kernel, copy or op
--   dur_ns   BIGINT   sum of its durations, ns
-- Invariant: dur_ns >= 0
SELECT name, sum(dur_ns)::BIGINT AS dur_ns FROM event
WHERE ($min_gap_ns IS NULL OR dur_ns >= $min_gap_ns) AND $exact AND $sort <> 'x'
GROUP BY name ORDER BY dur_ns DESC, name LIMIT $limit
"""

STEPS_SQL = """\
-- How long did step $number take?
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   number  BIGINT  which step
-- Columns:
--   step  BIGINT  number of the step
SELECT $number AS step
"""


@dataclass
class FakeTrace:
    """The fake result of opening a trace; records how it was opened and queried."""

    connection: duckdb.DuckDBPyConnection
    catalog: Catalog
    opened_with: dict[str, Any] = field(default_factory=dict)
    is_closed: bool = False
    error: BaseException | None = None
    missing: tuple[tuple[str, str], ...] = ()

    def query(self, name, **params):
        if self.error:
            raise self.error
        return run_analysis(self.connection, self.catalog.analysis(name), params)

    def sql(self, text):
        if self.error:
            raise self.error
        return run_sql(self.connection, text)

    def stream_sql(self, text, *, timeout_s=None):
        if self.error:
            raise self.error
        return stream_sql(self.connection, text, timeout_s=timeout_s)

    def breakdown(self, *, full=False):  # noqa: ARG002
        if self.error:
            raise self.error
        return {
            "kernels": self.query("kernels"),
            "health": Result("health", (Column("value", "DOUBLE"),), [(0.0,)]),
        }

    def close(self):
        self.is_closed = True

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


@pytest.fixture
def fake_trace(tmp_path, monkeypatch):
    """Return the trace that every command opens; its catalog has `kernels` and `steps`."""
    root = tmp_path / "queries"
    (root / "analyses").mkdir(parents=True)
    (root / "analyses" / "kernels.sql").write_text(KERNELS_SQL, encoding="utf-8")
    (root / "analyses" / "steps.sql").write_text(STEPS_SQL, encoding="utf-8")
    catalog = load_catalog(root)
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE event AS SELECT * FROM (VALUES ('gemm', 1500000::BIGINT), "
            "('gemm', 500000), ('norm', 250000)) AS t (name, dur_ns)"
        )
        trace = FakeTrace(connection, catalog)

        def fake_open(request):
            trace.opened_with = asdict(request)
            return trace

        # Modules imported now would keep the replaced catalog.
        importlib.import_module("tracekit.analysis.query_folders")
        monkeypatch.setattr("tracekit.opening.open_request", fake_open)
        monkeypatch.setattr("tracekit.analysis.catalog.load_catalog", lambda: catalog)
        yield trace


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def tracekit_command(fake_trace, capsys):
    """Return a function that runs a command in this process, on the fake trace."""
    del fake_trace

    def run(*args):
        exit_code = main(list(args))
        captured = capsys.readouterr()
        return Outcome(exit_code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def kept_stores(tmp_path_factory):
    """Return the folder of a cache that keeps the stores of the traces that tests share."""
    return tmp_path_factory.mktemp("kept_stores")


@pytest.fixture
def own_queries_only(tmp_path, kept_stores, monkeypatch):
    """Hide all user SQL files except the test's, as in an empty home folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(kept_stores))
    monkeypatch.delenv("TRACEKIT_QUERIES", raising=False)


@pytest.fixture
def run(own_queries_only, capsys):
    """Run a command in this process, in an empty home."""

    def run_it(*args):
        exit_code = main([str(arg) for arg in args])
        return own_queries.Outcome(exit_code, *capsys.readouterr())

    return run_it


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    """Return a trace of some ops, which tests only read."""
    path = tmp_path_factory.mktemp("ops") / "trace.json"
    path.write_text(json.dumps({"traceEvents": own_queries.OPS}), "utf-8")
    return path
