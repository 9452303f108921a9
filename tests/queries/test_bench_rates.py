"""Macro bench_rates: what the times of microbenchmarks say as rates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tracekit
from tracekit.analysis.relations import ensure
from tracekit.analysis.run import run_analysis
from tracekit.analysis.spec import ColumnSpec, Spec
from tracekit.database import STORE, add_session


@pytest.fixture(scope="module")
def rate() -> Callable[[str], Any]:
    """Return a function that works out an expression of the macros."""
    connection = duckdb.connect()
    add_session(connection, [STORE])
    ensure(connection, ["bench_rates"])

    def work_out(expression: str) -> Any:
        row = connection.execute(f"SELECT {expression}").fetchone()
        assert row is not None
        return row[0]

    return work_out


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # 2 x 1000 x 1000 x 1000 operations in 1 ms.
        ("bench_flop_per_s(1000, 1000, 1000, 1, 1e6)", 2e12),
        ("bench_flop_per_s(1000, 1000, 1000, NULL, 1e6)", 2e12),
        ("bench_flop_per_s(1000, 1000, 1000, 8, 1e6)", 16e12),
        # Beyond 64 bits.
        ("bench_flop_per_s(4000000, 4000000, 4000000, 1, 1e9)", 1.28e20),
        ("bench_flop_per_s(1000, 1000, 1000, 1, 0.0)", None),
        ("bench_flop_per_s(1000, NULL, 1000, 1, 1e6)", None),
        ("bench_bytes_per_s(1048576, 1e6)", 1048576e3),
        ("bench_bytes_per_s(1048576, NULL)", None),
        # The message crosses 2 (n - 1) / n times, (n - 1) / n times, once.
        ("bench_bus_bytes_per_s('all_reduce', 8, 8000, 1000.0)", 14e9),
        ("bench_bus_bytes_per_s('all_gather', 8, 8000, 1000.0)", 7e9),
        ("bench_bus_bytes_per_s('reduce_scatter', 8, 8000, 1000.0)", 7e9),
        ("bench_bus_bytes_per_s('all_to_all', 8, 8000, 1000.0)", 7e9),
        ("bench_bus_bytes_per_s('broadcast', 8, 8000, 1000.0)", 8e9),
        ("bench_bus_bytes_per_s('reduce', 8, 8000, 1000.0)", 8e9),
        ("bench_bus_bytes_per_s('send_recv', 2, 8000, 1000.0)", 8e9),
        ("bench_bus_bytes_per_s('mm', 2, 8000, 1000.0)", None),
        # Read and written; what a cache could hold is no rate of the memory.
        ("bench_memory_bytes_per_s('d2d', 268435456, 1e6)", 2 * 268435456e3),
        ("bench_memory_bytes_per_s('h2h', 268435456, 1e6)", 2 * 268435456e3),
        ("bench_memory_bytes_per_s('d2d', 268435455, 1e6)", None),
        ("bench_memory_bytes_per_s('h2d', 268435456, 1e6)", None),
    ],
)
def test_rates_of_one_call(
    rate: Callable[[str], Any], expression: str, expected: float | None
) -> None:
    assert rate(expression) == expected


def test_an_analysis_of_runs_finds_the_macros_in_a_store_without_any(
    make_run: Callable[..., Path],
) -> None:
    spec = Spec(
        name="asked",
        path="asked.sql",
        question="How fast?",
        description="",
        kind="analysis",
        scope="runs",
        requires=("bench_rates",),
        params=(),
        columns=(ColumnSpec("rate", "DOUBLE", "bytes/s"),),
        invariants=(),
        notes=(),
        sql="SELECT bench_bus_bytes_per_s('all_reduce', 2, 100, 10.0) AS rate",
    )
    with tracekit.open(make_run("a"), cache=False) as runs:
        assert run_analysis(runs.connection, spec, {}).rows == [(1e10,)]
