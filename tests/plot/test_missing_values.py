"""Charts of rows in which what a trace may not tell is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import tracekit
from tracekit.analysis.result import Result
from tracekit.plot import chart_module

REPO = Path(__file__).resolve().parents[2]


def without(result: Result, column: str, named: str) -> Result:
    """Return a result whose first row that has something for `named` has nothing for `column`."""
    place, has = (result.column_names.index(name) for name in (column, named))
    at = next(at for at, row in enumerate(result.rows) if row[has] is not None)
    row = result.rows[at]
    rows = [*result.rows]
    rows[at] = (*row[:place], None, *row[place + 1 :])
    return dataclasses.replace(result, rows=rows)


def test_ops_of_known_size_whose_types_are_not_recorded(
    opened: Callable[[Path], tracekit.Trace],
) -> None:
    trace = opened(REPO / "docs" / "samples" / "made_up_step.json")
    data = {name: trace.query(name) for name in ("compute_memory", "roofline")}
    data["compute_memory"] = without(data["compute_memory"], "dtype", "flop_per_s")
    chart = chart_module("gemms").chart(data)
    assert chart is not None


def test_what_a_manifest_may_leave_out() -> None:
    with tracekit.open(REPO / "sample_traces", traces=False, cache=False) as runs:
        methods = runs.query("methods")
    for name in ("methods", "method_memory"):
        for column in ("stage", "model", "method", "engine", "std_tokens_per_s"):
            rows = without(methods, column, "mean_tokens_per_s")
            assert chart_module(name).chart({"methods": rows}) is not None, (name, column)
