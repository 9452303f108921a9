"""Macros are made where they are needed: in the store, or on an analysis' own connection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.relations import functions_of, functions_of_stores

KERNEL = {
    "ph": "X",
    "cat": "kernel",
    "name": "k",
    "pid": 0,
    "tid": 7,
    "ts": 0,
    "dur": 1,
    "args": {"device": 0, "stream": 7},
}


def test_macros_come_behind_those_that_they_require() -> None:
    names = functions_of([load_catalog().tables["launched_op_costs"]])
    assert names.index("tensor") < names.index("op_costs")
    assert names.index("op_forms") < names.index("op_costs")


def test_a_store_has_only_the_macros_of_its_tables_and_views() -> None:
    assert "interval_union" in set(functions_of_stores())
    assert not {"op_costs", "collective_matches", "interval_pairs"} & set(functions_of_stores())


def test_analyses_and_their_sql_find_their_macros(tiny_trace: Callable[..., Path]) -> None:
    with tracekit.open(tiny_trace([KERNEL]), cache=False) as trace:
        assert trace.query("collective_skew").rows == []
        assert trace.sql("SELECT count(*) FROM collective_matches").rows == [(0,)]
        # One of several macros of a file that is named otherwise; names have no case in SQL.
        assert trace.sql("SELECT Bus_Factor ('comm_allreduce', 4)").rows == [(1.5,)]


def test_every_macro_that_an_analysis_calls_is_required() -> None:
    catalog = load_catalog()
    for spec in catalog.analyses.values():
        required = set(functions_of([spec])) | set(functions_of_stores())
        for name in catalog.functions:
            assert f"{name}(" not in spec.sql or name in required, f"{spec.name}: {name}"
