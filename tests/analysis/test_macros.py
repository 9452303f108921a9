"""Macros are made where they are needed: in the store, or on an analysis' own connection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from every_trace import REPO

import tracekit
from tracekit.analysis import macros
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.macros import macros_of, macros_of_stores
from tracekit.errors import QueryError

KEPT = ("collective_matches", "launched_op_costs", "parallel_members", "role_work")

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
    names = [spec.name for spec in macros_of([load_catalog().analysis("gemms")])]
    assert names.index("tensor") < names.index("op_costs")
    assert names.index("op_forms") < names.index("op_costs")


def test_a_store_has_only_the_macros_of_its_tables_and_views() -> None:
    assert "interval_union" in macros_of_stores()
    assert not {"op_costs", "collective_matches", "interval_pairs"} & macros_of_stores()


def test_analyses_and_their_sql_find_their_macros(tiny_trace: Callable[..., Path]) -> None:
    with tracekit.open(tiny_trace([KERNEL]), cache=False) as trace:
        assert trace.query("collective_skew").rows == []
        assert trace.sql("SELECT count(*) FROM collective_matches()").rows == [(0,)]
        # One of several macros of a file that is named otherwise; names have no case in SQL.
        assert trace.sql("SELECT Bus_Factor ('comm_allreduce', 4)").rows == [(1.5,)]


def test_every_macro_that_an_analysis_calls_is_required() -> None:
    catalog = load_catalog()
    for spec in catalog.analyses.values():
        required = {macro.name for macro in macros_of([spec])} | macros_of_stores()
        for name in catalog.macros:
            assert f"{name}(" not in spec.sql or name in required, f"{spec.name}: {name}"


def ask_all(path: Path) -> dict[str, object]:
    """What each analysis says that reads rows which are kept."""
    said: dict[str, object] = {}
    with tracekit.open(path) as trace:
        for spec in load_catalog().analyses.values():
            if spec.scope != "runs" and any(one.name in KEPT for one in macros_of([spec])):
                try:
                    said[spec.name] = trace.query(spec.name)
                except QueryError as error:
                    said[spec.name] = str(error)
    return said


@pytest.mark.parametrize("name", ["pretrain_R+Z3", "serve_vllm"])
def test_rows_that_are_kept_say_what_they_say_made_anew(
    name: str, keep_stores: Callable[..., None], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = REPO / "sample_traces" / name
    keep_stores(cache, run)
    kept = ask_all(run)
    assert len(kept) > 10
    monkeypatch.setattr(macros, "_MOST_ROWS_KEPT", -1)
    assert ask_all(run) == kept


def test_of_few_device_events_rows_are_kept(
    tiny_trace: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '%_kept'"
    path = tiny_trace([KERNEL])
    with tracekit.open(path, cache=False) as trace:
        trace.query("roles")
        assert trace.sql(sql).rows == [("role_work_kept",)]
        # Who drops them has them made again; who asks for them by name has his own arguments.
        trace.connection.execute("DROP TABLE session.main.role_work_kept")
        assert len(trace.query("roles").rows) == 1
        assert trace.sql("SELECT count(*) FROM role_work('module')").rows == [(1,)]
        trace.sql("CREATE TEMP VIEW other AS FROM module WHERE FALSE; SELECT 1")
        assert trace.sql("SELECT count(*) FROM role_work('other')").rows == [(1,)]
    monkeypatch.setattr(macros, "_MOST_ROWS_KEPT", 0)
    with tracekit.open(path, cache=False) as trace:
        trace.query("roles")
        assert trace.sql(sql).rows == []
