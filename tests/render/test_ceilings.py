"""Texts about ceilings stand below a table, each once; exact formats have every column."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Rendered = Callable[..., str]

COLUMNS = {
    "name": "VARCHAR",
    "ceiling_bytes_per_s": "DOUBLE",
    "ceiling_pct": "DOUBLE",
    "ceiling_source": "VARCHAR",
    "ceiling_reason": "VARCHAR",
}


def test_each_text_is_told_once(make_result: Any, rendered: Rendered) -> None:
    result = make_result(
        "memcpy",
        COLUMNS,
        ("a", 2e9, 50.0, "bench", None),
        ("b", 2e9, 125.0, "bench", None),
        ("c", None, None, None, "no\x1bne"),
    )
    assert rendered(result, "table").splitlines() == [
        "name  ceiling GB/s  ceiling %",
        "────  ────────────  ─────────",
        "a            2.000       50.0",
        "b            2.000      125.0",
        "c                –          –",
        "measured: bench",
        "no ceiling: no\\x1bne",
    ]
    assert list(json.loads(rendered(result, "json"))[2].values())[-1] == "no\x1bne"
    assert list(json.loads(rendered(result, "json"))[2]) == list(COLUMNS)


def test_without_any_ceiling_only_the_reason_is_told(make_result: Any, rendered: Rendered) -> None:
    result = make_result("memcpy", COLUMNS, *(("a", None, None, None, f"r{i}") for i in range(7)))
    lines = rendered(result, "table").splitlines()
    assert lines[:3] == ["name", "────", "a"]
    assert lines[-1] == "no ceiling: r0; r1; r2; r3; r4; and 2 more"


def test_sql_gets_the_columns_that_it_asked_for(make_result: Any, rendered: Rendered) -> None:
    result = make_result("sql", COLUMNS, ("a", None, None, None, "why"))
    header, _, row = rendered(result, "table", units=False).splitlines()
    assert header.split() == list(COLUMNS)
    assert row.split() == ["a", "–", "–", "–", "why"]


def test_a_ceiling_of_other_threads_says_how_to_measure_it(
    make_result: Any, rendered: Rendered
) -> None:
    why = "it was measured with 2 threads, the rank had 1 thread"
    result = make_result("mfu", COLUMNS, ("a", None, None, None, why))
    line = rendered(result, "table", width=140).splitlines()[-1]
    assert line == f"no ceiling: {why} (measure it: OMP_NUM_THREADS=1 tracekit bench gemm)"
    assert "OMP_NUM_THREADS" not in rendered(result, "json")
