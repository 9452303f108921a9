"""Derived tables of a trace without a cached store are created on demand and have the same rows."""

import duckdb
import pytest
from traces_by_hand import kernel, span, work

import tracekit
from tracekit.analysis import plausibility, relations
from tracekit.analysis.breakdown import BREAKDOWN, TOTALS
from tracekit.analysis.catalog import load_catalog
from tracekit.database.connections import session_of
from tracekit.errors import TracekitError

EVENTS = [
    span("python_function", "nn.Module: Linear_0", 0, 60),
    span("cpu_op", "aten::mm", 2, 20),
    *work(5, 10, 30, 1, "gemm"),
    *work(25, 35, 45, 2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    *work(50, 70, 80, 3, "elementwise_kernel"),
    *work(55, 85, 90, 4, "Memcpy HtoD (Pageable -> Device)"),
]
NAMES = (*BREAKDOWN, *TOTALS.values(), "roles", "waited_for", "queue_length", "stragglers")
CATALOGUE = """
SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()
UNION ALL SELECT view_name FROM duckdb_views() WHERE database_name = current_database()
UNION ALL SELECT function_name FROM duckdb_functions() WHERE database_name = current_database()
ORDER BY ALL
"""


@pytest.fixture
def path(tiny_trace):
    return tiny_trace(EVENTS)


def asked(trace, name):
    try:
        found = trace.query(name)
    except TracekitError as error:
        return str(error)
    return found.columns, found.rows


def made(trace):
    """Return the derived tables that have been filled."""
    return session_of(trace._connection).row_counts.keys() & load_catalog().tables.keys()


def test_analyses_match_those_of_a_cached_store(path, cache):
    with tracekit.open(path) as kept, tracekit.open(path, cache=False) as trace:
        for name in reversed(NAMES):
            assert asked(trace, name) == asked(kept, name), name
        # None of the analyses needed all tables.
        assert trace._store.derive is not None
        whole = kept.sql(CATALOGUE).rows
        assert trace.sql(CATALOGUE).rows == whole
        assert trace._store.derive is None
        for name in ("idle_gap", "attributed_events", "record"):
            text = f"SELECT * FROM {name} ORDER BY ALL"
            assert trace.sql(text).rows == kept.sql(text).rows


def test_only_requested_tables_are_created(path):
    with tracekit.open(path, cache=False) as trace:
        assert not made(trace)
        assert trace.query("kernels").rows
        assert {"attribution", "launch_link"} <= made(trace)
        assert made(trace).isdisjoint({"idle_gap", "memory_event", "stack_frames"})
        assert len(trace.breakdown()["idle_causes"])
        assert "idle_gap" in made(trace)


def test_a_failed_step_is_tried_again(path, monkeypatch):
    create = relations._Making._create

    def fails(making, connection, spec):
        if spec.name == "attribution":
            raise duckdb.InterruptException("no more")
        create(making, connection, spec)

    with tracekit.open(path, cache=False) as trace, tracekit.open(path, cache=False) as other:
        with monkeypatch.context() as patch:
            patch.setattr(relations._Making, "_create", fails)
            with pytest.raises(duckdb.InterruptException):
                trace.query("idle_gaps")
        assert "device_events" in made(trace)
        assert trace.query("idle_gaps").rows == other.query("idle_gaps").rows != []


def test_judging_records_again_with_more_memory_counts_them_once(tiny_trace, monkeypatch):
    create, calls = plausibility.create_event_kinds, []

    def fails_once(connection):
        calls.append(connection)
        if len(calls) == 2:
            raise duckdb.OutOfMemoryException("no more")
        create(connection)

    monkeypatch.setattr(plausibility, "create_event_kinds", fails_once)
    at = 1.7e15
    path = tiny_trace([*work(at, at + 5, at + 30, 1, "gemm"), kernel("gemm", -120, -20, 2)])
    with tracekit.open(path, cache=False) as trace:
        assert trace.sql("SELECT left_out_count, complete_count FROM trace").rows == [(1, 2)]
        assert trace.sql("SELECT problem FROM implausible").rows == [("other_clock",)]
        assert trace.sql("SELECT sum(record_count)::BIGINT FROM event_kind").rows == [(2,)]
