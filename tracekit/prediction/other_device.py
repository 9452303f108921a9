"""Scales kernels to another device or type by data-sheet peaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.analysis.device_peaks import DevicePeak, find_device, load_device_peaks
from tracekit.analysis.relations import ensure_named
from tracekit.errors import QueryError
from tracekit.sql_text import literal, quote

if TYPE_CHECKING:
    import duckdb

LAUNCH_BOUND_NS = 3_000
"""Kernels up to this duration are launch overhead of the device and stay unchanged."""

MATRIX_TYPES = ("fp8", "bf16", "fp16", "tf32", "int8")
"""Types that matrix units support, which reach other shares of their peaks."""

# The operations and bytes of an op decide whether a GEMM is bound by arithmetic or memory on the
# recorded device. If they are unknown, GEMMs are bound by arithmetic, and all else by memory.
_RATIOS = """
CREATE OR REPLACE TABLE {table}_device AS
WITH peak AS (
    SELECT p.trace_id, p.dtype, p.flop_per_s, p.memory_bytes_per_s,
        o.flop_per_s AS other_flop_per_s,
        p.flop_per_s * if(p.dtype IN {matrix_types}, {reached}, 1) AS reached_flop_per_s
    FROM device_peak AS p
    INNER JOIN {other}
),
memory AS (
    SELECT trace_id, any_value(memory_bytes_per_s) AS bytes_per_s
    FROM device_peak GROUP BY trace_id
),
cost AS (
    SELECT c.trace_id, c.op_id, c.flops, c.bytes,
        computed_type(c.dtype, coalesce(t.is_tf32, FALSE)) AS dtype
    FROM launched_op_costs AS c
    LEFT JOIN (
        SELECT trace_id, op_id, bool_or(is_tf32_kernel(name)) AS is_tf32
        FROM attributed_events GROUP BY ALL
    ) AS t USING (trace_id, op_id)
    WHERE c.flops > 0
),
common AS (
    SELECT trace_id, arg_max(dtype, flops) AS dtype
    FROM (SELECT trace_id, dtype, sum(flops) AS flops FROM cost GROUP BY ALL)
    GROUP BY trace_id
),
work AS (
    SELECT s.span_id, a.trace_id, a.dur_ns, a.class, c.flops, c.bytes,
        coalesce(c.dtype, if(has_flops(a.class) AND NOT is_conv(a.class), o.dtype, NULL)) AS dtype,
        c.flops IS NOT NULL AS is_known
    FROM attributed_events AS a
    INNER JOIN graph_span AS s
        ON a.trace_id = s.trace_id AND a.event_id = s.event_id AND a.piece = s.piece
            AND s.kind = 'work'
    LEFT JOIN cost AS c ON a.trace_id = c.trace_id AND a.op_id = c.op_id
        AND has_flops(a.class)
    LEFT JOIN common AS o ON a.trace_id = o.trace_id
    WHERE a.kind = 'compute'
)
SELECT w.span_id, w.dur_ns, w.is_known,
    CASE
        WHEN w.dur_ns <= {launch_bound} THEN 'too short to tell'
        WHEN NOT {is_moved} THEN 'as it was'
        WHEN p.flop_per_s IS NOT NULL
            AND coalesce(w.flops / p.reached_flop_per_s >= w.bytes / p.memory_bytes_per_s, TRUE)
            THEN 'arithmetic'
        ELSE 'memory'
    END AS bound,
    CASE bound
        WHEN 'arithmetic' THEN p.flop_per_s / p.other_flop_per_s
        WHEN 'memory' THEN {memory_ratio}
        ELSE 1
    END AS ratio
FROM work AS w
INNER JOIN memory AS m ON w.trace_id = m.trace_id
LEFT JOIN peak AS p ON w.trace_id = p.trace_id AND w.dtype = p.dtype
"""

_BOUNDS = ("arithmetic", "as it was", "too short to tell")

_NEEDED = "FROM launched_op_costs WHERE computed_type() is_tf32_kernel()"


def scale_to_device(connection: duckdb.DuckDBPyConnection, table: str, name: str) -> list[str]:
    """Scale the compute in an edge table to another device; return the assumptions.

    Raises:
        QueryError: the device is unknown, or the recorded one has no published peak.
    """
    other = find_device(name)
    here, there, how = _reached(connection, other)
    rates = {
        one: rate * there / here if one in MATRIX_TYPES else rate
        for one, rate in other.flop_per_s.items()
    }
    types = ", ".join(f"({quote(one)}, {literal(rate)})" for one, rate in rates.items())
    said = _scale(
        connection,
        table,
        f"device={name}",
        other=f"(VALUES {types}) AS o(dtype, flop_per_s) USING (dtype)",
        memory_ratio=f"m.bytes_per_s / {literal(other.memory_bytes_per_s)}",
        is_moved="TRUE",
        reached=str(here),
    )
    return [
        f"{other.product}: kernels scale with the ratio of data-sheet peaks ({said})",
        how,
        "copies, collectives, latencies, and the host are unchanged",
        "the interval allows each kernel 0.8 to 1.25 times the scaled time",
    ]


def _reached(connection: duckdb.DuckDBPyConnection, other: DevicePeak) -> tuple[float, float, str]:
    """Return the share of peak that GEMMs reach on both devices, and its description.

    Both are 1 if one is unknown.
    """
    names = {row[0] for row in connection.execute("SELECT product FROM device_peak").fetchall()}
    recorded = [one for one in load_device_peaks() if one.product in names]
    shares = [
        one.reached_bf16 / one.flop_per_s["bf16"]
        for one in (*recorded, other)
        if one.reached_bf16 is not None
    ]
    if len(recorded) != 1 or len(shares) != 2:
        how = "the other device reaches the same share of its peaks with the same kernels"
        return 1.0, 1.0, how
    here, there = shares
    return (
        here,
        there,
        (
            f"GEMMs reach {100 * there:.0f} % of the other device's peak and {100 * here:.0f} % of "
            "this device's, the best measured values; all else reaches the same share"
        ),
    )


def scale_to_type(connection: duckdb.DuckDBPyConnection, table: str, dtype: str) -> list[str]:
    """Scale 32-bit GEMMs in an edge table to a narrower type.

    Args:
        connection: to a store with the graph.
        table: the edge table.
        dtype: bf16, fp16, or tf32.

    Returns:
        Assumptions.

    Raises:
        QueryError: the device has no published peak for that type.
    """
    if not connection.execute("FROM device_peak WHERE dtype = ? LIMIT 1", [dtype]).fetchall():
        raise QueryError(f"precision={dtype}: the device has no published peak for that type")
    said = _scale(
        connection,
        table,
        f"precision={dtype}",
        other=f"device_peak AS o ON p.trace_id = o.trace_id AND o.dtype = {quote(dtype)} "
        "AND p.dtype IN ('fp32', 'tf32') AND o.flop_per_s > p.flop_per_s",
        memory_ratio="1" if dtype == "tf32" else "0.5",
        is_moved="(p.flop_per_s IS NOT NULL)",
        reached="1",
    )
    return [
        f"{dtype}: 32-bit GEMMs scale with the ratio of data-sheet peaks ({said})",
        "the new kernels reach the same share of their peak; casts and all else are unchanged",
    ]


def _scale(connection: duckdb.DuckDBPyConnection, table: str, asked: str, **ratio: str) -> str:
    """Scale compute by ratios of peaks; return the share of time by bound."""
    if not connection.execute("FROM device_peak LIMIT 1").fetchall():
        raise QueryError(f"{asked}: the peaks of the recorded device are unknown")
    ensure_named(connection, _NEEDED)
    connection.execute(
        _RATIOS.format(
            table=table, launch_bound=LAUNCH_BOUND_NS, matrix_types=MATRIX_TYPES, **ratio
        )
    )
    connection.execute(
        f"UPDATE {table} AS e SET factor = e.factor * d.ratio FROM {table}_device AS d "
        "WHERE e.part = 'work' AND e.target_node // 2 = d.span_id"
    )
    shares = connection.execute(
        f"SELECT bound, 100.0 * sum(dur_ns) / (SELECT sum(dur_ns) FROM {table}_device) "
        f"FROM {table}_device GROUP BY bound ORDER BY bound"
    ).fetchall()
    connection.execute(f"DROP TABLE {table}_device")
    said = ", ".join(f"{share:.1f} % by {bound}" for bound, share in shares if bound in _BOUNDS)
    return f"{said}, the rest by memory bandwidth" if said else "all by memory bandwidth"
