"""Analyses of traces within SQL: FROM timeline(p_min_gap_ns := 1000)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from every_trace import REPO

import tracekit
from tracekit.analysis.catalog import load_catalog

SAMPLE = REPO / "sample_traces" / "serve_vllm"
# A run has rows about itself in its health; what why tells is of the event that is asked for.
OTHERWISE = {"health", "why"}
ASKED = [
    spec
    for spec in load_catalog().analyses.values()
    if spec.scope == "trace" and spec.name not in OTHERWISE
]


@pytest.mark.parametrize("spec", ASKED, ids=lambda spec: spec.name)
def test_the_rows_are_those_of_query(
    opened: Callable[[Path], tracekit.Trace], spec: tracekit.analysis.spec.Spec
) -> None:
    trace = opened(SAMPLE)
    given = {param.name: 1 for param in spec.params if param.default is None}
    words = ", ".join(f"p_{name} := {value}" for name, value in given.items())
    rows = trace.sql(f"FROM {spec.name}({words})")
    assert rows.column_names == tuple(column.name for column in spec.columns)
    assert rows.rows == trace.query(spec.name, **given).rows


def test_parameters(opened: Callable[[Path], tracekit.Trace]) -> None:
    trace = opened(SAMPLE)
    for params in ({"limit": 2}, {"limit": 0, "class": "gemm"}):
        words = ", ".join(f"p_{name} := {value!r}" for name, value in params.items())
        assert trace.sql(f"FROM kernels({words})").rows == trace.query("kernels", **params).rows


def test_its_name_alone_is_a_table_of_its_rows(opened: Callable[[Path], tracekit.Trace]) -> None:
    trace = opened(SAMPLE)
    assert trace.sql("FROM timeline").rows == trace.query("timeline").rows
    # Of two it is the name of a table of what was ingested.
    assert trace.sql("FROM trace").column_names != trace.query("trace").column_names


def test_a_statement_that_has_such_a_name_of_its_own_makes_none(
    opened: Callable[[Path], tracekit.Trace],
) -> None:
    trace = opened(SAMPLE)
    own = "WITH stragglers AS (SELECT 1 AS waits) SELECT 2 AS one, waits FROM stragglers"
    assert trace.sql(own).rows == [(2, 1)]
    made = "SELECT name FROM session.main.relation WHERE name IN ('stragglers', 'waits')"
    assert trace.sql(made).rows == []
