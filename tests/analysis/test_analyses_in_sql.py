"""Analyses and macros in the user's SQL: FROM timeline(p_min_gap_ns := 1000)."""

import pytest
from every_trace import REPO
from traces_by_hand import work

import tracekit
from tracekit.analysis.catalog import load_catalog

SAMPLE = REPO / "sample_traces" / "serve_vllm"
# `health` has rows about the run, too, and `why` depends on an event.
EXCLUDED = {"health", "why"}
ASKED = [
    spec
    for spec in load_catalog().analyses.values()
    if spec.scope == "trace" and spec.name not in EXCLUDED
]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            spec,
            id=spec.name,
            marks=[pytest.mark.nightly("all analyses of a sample")] if number % 4 else [],
        )
        for number, spec in enumerate(ASKED)
    ],
)
def test_rows_match_those_of_query(opened, spec):
    trace = opened(SAMPLE)
    given = {param.name: 1 for param in spec.params if param.default is None}
    words = ", ".join(f"p_{name} := {value}" for name, value in given.items())
    rows = trace.sql(f"FROM {spec.name}({words})")
    assert rows.column_names == tuple(column.name for column in spec.columns)
    assert rows.rows == trace.query(spec.name, **given).rows


def test_parameters(opened):
    trace = opened(SAMPLE)
    for params in ({"limit": 2}, {"limit": 0, "class": "gemm"}):
        words = ", ".join(f"p_{name} := {value!r}" for name, value in params.items())
        assert trace.sql(f"FROM kernels({words})").rows == trace.query("kernels", **params).rows


def test_the_name_alone_is_a_table(opened):
    trace = opened(SAMPLE)
    assert trace.sql("FROM timeline").rows == trace.query("timeline").rows
    # A table of the store takes precedence over an analysis of the same name.
    assert trace.sql("FROM trace").column_names != trace.query("trace").column_names


def test_a_common_table_expression_hides_an_analysis(opened):
    trace = opened(SAMPLE)
    own = "WITH stragglers AS (SELECT 1 AS waits) SELECT 2 AS one, waits FROM stragglers"
    assert trace.sql(own).rows == [(2, 1)]
    made = (
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'session' "
        "AND table_name IN ('stragglers', 'waits')"
    )
    assert trace.sql(made).rows == []


def test_macros_are_found(opened):
    trace = opened(SAMPLE)
    assert trace.sql("SELECT count(*) FROM collective_matches").rows == [(0,)]
    # One of several macros in a file of another name; SQL ignores case.
    assert trace.sql("SELECT Wire_Factor ('allreduce', 4)").rows == [(1.5,)]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_analyses_inside_a_transaction(tiny_trace, end):
    """Query `kernels` (one row) and `communication` (no rows) within and afterwards."""
    with tracekit.open(tiny_trace(work(0, 3, 5, 1)), cache=False) as trace:
        trace.sql("BEGIN")
        counts = "SELECT (SELECT count(*) FROM kernels), (SELECT count(*) FROM communication)"
        assert [trace.sql(counts).rows for _ in range(2)] == 2 * [[(1, 0)]]
        trace.sql(end)
        assert trace.sql(counts).rows == [(1, 0)]
