"""Predicts another batch size or sequence length from runs of several sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean, linear_regression
from typing import TYPE_CHECKING, Any

from tracekit.errors import QueryError, UsageError
from tracekit.prediction.changes import Change
from tracekit.prediction.edges import TABLE, drop

if TYPE_CHECKING:
    import duckdb

Ask = Callable[[str], Sequence[Sequence[Any]]]
"""Returns the rows of a statement on the store of a run."""

FURTHER = 2
"""Maximum ratio of a size to those of the runs."""

_WORK = """
WITH step AS (
    SELECT count(*) AS count
    FROM (SELECT DISTINCT trace_id, step FROM attributed_events WHERE step IS NOT NULL)
)
SELECT
    coalesce(m.path, a.row_name, ''), coalesce(a.phase, ''), a.class,
    sum(a.dur_ns) / any_value(s.count)
FROM attributed_events AS a
CROSS JOIN step AS s
LEFT JOIN module AS m USING (trace_id, module_id)
WHERE a.kind <> 'comm' AND a.step IS NOT NULL
GROUP BY ALL
"""
"""Work of a rank's step by module, phase, and class, ns."""

_SIZES = {"batch": "batch_size", "sequence": "sequence_length"}


def resize(connection: duckdb.DuckDBPyConnection, change: Change, runs: Sequence[Ask]) -> list[str]:
    """Scale work in the edge table to another size; return the assumptions.

    Args:
        connection: to a store with the graph of the first run.
        change: which size, and those of the runs.
        runs: the first run and the further ones.

    Raises:
        UsageError: the sizes of the runs are neither given nor in a manifest.
        QueryError: there is only one run or size, or the size is too far from theirs.
    """
    if len(runs) < 2:
        raise QueryError(
            f"{change.text!r}: one run does not show how its work scales",
            hint="record a run of another size, and add it after the first",
        )
    sizes = change.sizes or tuple(_recorded(ask, change) for ask in runs)
    if len(sizes) != len(runs):
        raise UsageError(f"{change.text!r}: {len(runs)} runs, but {len(sizes)} sizes")
    low, high = min(sizes), max(sizes)
    if low == high:
        raise QueryError(f"{change.text!r}: all runs have size {low}")
    if not low / FURTHER <= change.count <= high * FURTHER:
        raise QueryError(
            f"{change.text!r}: too far from the recorded sizes {low} to {high}",
            hint=f"predictable sizes: {-(-low // FURTHER)} to {high * FURTHER}",
        )
    took: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for place, ask in enumerate(runs):
        rows = ask(_WORK)
        if not rows:
            raise QueryError(f"{change.text!r}: run {place + 1} has no work in marked steps")
        for *key, ns in rows:
            if len(took[tuple(key)]) == place:
                took[tuple(key)].append(ns)
    nearest = replace(change, count=min(max(change.count, low), high))
    ratios = {
        key: tuple(_ratio(sizes, values, one) for one in (change, nearest))
        for key, values in took.items()
        if len(values) == len(runs) and values[0] > 0
    }
    columns = [
        *([key[i] for key in ratios] for i in range(3)),
        *([pair[i] for pair in ratios.values()] for i in range(2)),
    ]
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_size AS SELECT unnest(?::VARCHAR[]) AS module, "
        "unnest(?::VARCHAR[]) AS phase, unnest(?::VARCHAR[]) AS class, "
        "unnest(?::DOUBLE[]) AS ratio, unnest(?::DOUBLE[]) AS nearest",
        columns,
    )
    connection.execute(
        f"UPDATE {TABLE} AS e SET factor = e.factor * s.ratio, "
        # Beyond the recorded sizes, work may stop growing, or grow twice as fast.
        "quick_ns = e.quick_ns * if(s.ratio > 0, least(s.nearest / s.ratio, 1), 1), "
        "slow_ns = e.slow_ns * if(s.ratio > 0, greatest(2 - s.nearest / s.ratio, 1), 1) "
        f"FROM {TABLE}_size AS s "
        "WHERE e.part = 'work' AND e.work_kind <> 'comm' AND e.class = s.class "
        "AND (coalesce(e.module, ''), coalesce(e.phase, '')) = (s.module, s.phase)"
    )
    drop(connection, "size")
    whole = sum(values[0] for values in took.values() if values)
    alike = sum(took[key][0] for key in ratios)
    runs_ms = " and ".join(
        f"{sum(took[key][place] for key in ratios) / 1e6:.3f} ms for {size}"
        for place, size in enumerate(sizes)
    )
    squared = ", quadratic where it grew faster than the size"
    kept_pct = 100 * (1 - alike / max(whole, 1))
    return [
        (
            "work of each module, phase, and class scales linearly between the runs: "
            f"{runs_ms} per step"
        )
        + (squared if change.action == "sequence" else ""),
        f"{kept_pct:.1f} % of the work, the host, loading, and communication are unchanged",
    ]


def _recorded(ask: Ask, change: Change) -> int:
    rows = ask(f"SELECT {_SIZES[change.action]} FROM run WHERE {_SIZES[change.action]} IS NOT NULL")
    if not rows:
        raise UsageError(
            f"{change.text!r}: a run has no manifest with its size",
            hint=f"{change.action}={change.count} of=64,96, in the order of the runs",
        )
    return int(rows[0][0])


def _ratio(sizes: Sequence[int], values: Sequence[float], change: Change) -> float:
    """Return the value of the line at a size, relative to the first size."""
    power = 1
    if change.action == "sequence":
        (small, least), *_, (large, most) = sorted(zip(sizes, values, strict=True))
        power = 2 if most * small > least * large else 1
    slope, start = linear_regression([size**power for size in sizes], values)
    first = start + slope * sizes[0] ** power
    if first <= 0:
        first, slope, start = fmean(values), 0.0, fmean(values)
    return float(max(start + slope * change.count**power, 0.0) / first)
