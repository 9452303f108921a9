"""Scales work to another device, data type, or size, or to the median rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, linear_regression

from msgspec.structs import replace

from tracekit.analysis.names.device_peaks import DevicePeak, find_device, load_device_peaks
from tracekit.analysis.relations import ensure_named
from tracekit.errors import QueryError, UsageError
from tracekit.prediction.changes import Change
from tracekit.prediction.edges import OWN_NS, Ask, Edges, scaled
from tracekit.sql_text import quote, select_rows

LAUNCH_BOUND_NS = 3_000
"""Shorter kernels are launch overhead on the device and not scaled."""

MATRIX_TYPES = ("fp8", "bf16", "fp16", "tf32", "int8")
"""Types of matrix units, which reach other shares of peak than other types."""

# FLOPs and bytes determine whether an op is compute-bound or memory-bound on the recorded device.
# If they are unknown, GEMMs count as compute-bound, other work as memory-bound.
_RATIOS = f"""
WITH peak AS (
    SELECT p.trace_id, p.dtype, p.flop_per_s, p.memory_bytes_per_s,
        o.flop_per_s AS other_flop_per_s,
        p.flop_per_s * if(p.dtype IN {MATRIX_TYPES}, {{reached}}, 1) AS reached_flop_per_s
    FROM device_peak AS p
    INNER JOIN {{other}}
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
    SELECT s.span_id, a.trace_id, a.dur_ns, c.flops, c.bytes,
        coalesce(c.dtype, if(has_flops(a.class) AND NOT is_conv(a.class), o.dtype, NULL)) AS dtype
    FROM attributed_events AS a
    INNER JOIN graph_span AS s
        ON a.trace_id = s.trace_id AND a.event_id = s.event_id AND a.piece = s.piece
            AND s.kind = 'work'
    LEFT JOIN cost AS c ON a.trace_id = c.trace_id AND a.op_id = c.op_id
        AND has_flops(a.class)
    LEFT JOIN common AS o ON a.trace_id = o.trace_id
    WHERE a.kind = 'compute'
)
SELECT w.span_id, w.dur_ns,
    CASE
        WHEN w.dur_ns <= {LAUNCH_BOUND_NS} THEN 'too short to scale'
        WHEN NOT {{is_moved}} THEN 'unchanged'
        WHEN p.flop_per_s IS NOT NULL
            AND coalesce(w.flops / p.reached_flop_per_s >= w.bytes / p.memory_bytes_per_s, TRUE)
            THEN 'compute-bound'
        ELSE 'memory-bound'
    END AS bound,
    CASE bound
        WHEN 'compute-bound' THEN p.flop_per_s / p.other_flop_per_s
        WHEN 'memory-bound' THEN {{memory_ratio}}
        ELSE 1
    END AS ratio
FROM work AS w
INNER JOIN memory AS m ON w.trace_id = m.trace_id
LEFT JOIN peak AS p ON w.trace_id = p.trace_id AND w.dtype = p.dtype
"""


def scale_to_device(edges: Edges, change: Change) -> list[str]:
    other = find_device(change.device)
    here, there, how = _reached(edges, other)
    rates = [
        (one, rate * there / here if one in MATRIX_TYPES else rate)
        for one, rate in other.flop_per_s.items()
    ]
    types = select_rows({"dtype": "VARCHAR", "flop_per_s": "DOUBLE"}, rates)
    explanation = _scale(
        edges,
        f"device={change.device}",
        other=f"({types}) AS o USING (dtype)",
        memory_ratio=f"m.bytes_per_s / {other.memory_bytes_per_s!r}::DOUBLE",
        is_moved="TRUE",
        reached=str(here),
    )
    return [
        f"{other.product}: kernels scale with the ratio of data-sheet peaks ({explanation})",
        how,
        "copies, collectives, latencies, and the host are unchanged",
        "the interval allows each kernel 0.8 to 1.25 times the scaled time",
    ]


def _reached(edges: Edges, other: DevicePeak) -> tuple[float, float, str]:
    """Return the share of peak that GEMMs reach on each device, and describe it.

    Both shares are 1 if either is unknown.
    """
    names = {product for (product,) in edges.run("SELECT product FROM device_peak")}
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
    how = (
        f"GEMMs reach {100 * there:.0f} % of the other device's peak and {100 * here:.0f} % of "
        "this device's, the best measured values; all else reaches the same share"
    )
    return here, there, how


def scale_to_type(edges: Edges, change: Change) -> list[str]:
    dtype = change.device
    if not edges.run(f"FROM device_peak WHERE dtype = {quote(dtype)} LIMIT 1"):
        raise QueryError(f"precision={dtype}: the device has no published peak for that type")
    explanation = _scale(
        edges,
        f"precision={dtype}",
        other=f"device_peak AS o ON p.trace_id = o.trace_id AND o.dtype = {quote(dtype)} "
        "AND p.dtype IN ('fp32', 'tf32') AND o.flop_per_s > p.flop_per_s",
        memory_ratio="1" if dtype == "tf32" else "0.5",
        is_moved="(p.flop_per_s IS NOT NULL)",
        reached="1",
    )
    return [
        f"{dtype}: 32-bit GEMMs scale with the ratio of data-sheet peaks ({explanation})",
        "the new kernels reach the same share of their peak; casts and all else are unchanged",
    ]


def _scale(edges: Edges, change: str, **ratio: str) -> str:
    """Scale compute by ratios of peaks; describe the compute-bound and memory-bound shares."""
    if not edges.run("FROM device_peak LIMIT 1"):
        raise QueryError(f"{change}: the peaks of the recorded device are unknown")
    ensure_named(edges.connection, "FROM launched_op_costs WHERE computed_type() is_tf32_kernel()")
    edges.create("changed_device", _RATIOS.format(**ratio))
    edges.update(
        "factor = e.factor * d.ratio",
        "e.part = 'work' AND e.target_node // 2 = d.span_id",
        "changed_device AS d",
    )
    shares = edges.run(
        "SELECT bound, 100.0 * sum(dur_ns) / (SELECT sum(dur_ns) FROM changed_device) "
        "FROM changed_device GROUP BY bound ORDER BY bound"
    )
    texts = [f"{share:.1f} % {bound}" for bound, share in shares if bound != "memory-bound"]
    return ", ".join((*texts, "the rest memory-bound")) if texts else "all memory-bound"


FURTHER = 2
"""Maximum ratio of a predicted size to the recorded sizes."""

# Work of a rank's step by module, phase, and class, ns.
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

_SIZES = {"batch": "batch_size", "sequence": "sequence_length"}


def resize(edges: Edges, change: Change) -> list[str]:
    # Bench runs have no traces.
    runs = [ask for ask in edges.every_run if ask("FROM trace LIMIT 1")]
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
    alike = {
        key: values for key, values in took.items() if len(values) == len(runs) and values[0] > 0
    }
    ratios = [
        (*key, *(_ratio(sizes, values, one) for one in (change, nearest)))
        for key, values in alike.items()
    ]
    types = dict.fromkeys(("module", "phase", "class"), "VARCHAR")
    types |= dict.fromkeys(("ratio", "nearest"), "DOUBLE")
    edges.update(
        "factor = e.factor * s.ratio, "
        # Beyond the recorded sizes, work may stop growing or grow twice as fast.
        "quick_ns = e.quick_ns * if(s.ratio > 0, least(s.nearest / s.ratio, 1), 1), "
        "slow_ns = e.slow_ns * if(s.ratio > 0, greatest(2 - s.nearest / s.ratio, 1), 1)",
        "e.part = 'work' AND e.work_kind <> 'comm' AND e.class = s.class "
        "AND (coalesce(e.module, ''), coalesce(e.phase, '')) = (s.module, s.phase)",
        f"({select_rows(types, ratios)}) AS s",
    )
    runs_ms = " and ".join(
        f"{sum(values[place] for values in alike.values()) / 1e6:.3f} ms for {size}"
        for place, size in enumerate(sizes)
    )
    squared = ", quadratic where it grew faster than the size"
    total_ns = sum(values[0] for values in took.values() if values)
    fixed_pct = 100 * (1 - sum(values[0] for values in alike.values()) / max(total_ns, 1))
    fixed = f"{fixed_pct:.1f} % of the GPU work, " if fixed_pct >= 0.05 else ""
    return [
        (
            "work of each module, phase, and class scales linearly between the runs: "
            f"{runs_ms} per step"
        )
        + (squared if change.action == "sequence" else ""),
        f"{fixed}host time, loading, and communication are unchanged",
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
    """Return the fitted value at the new size, relative to the first size."""
    power = 1
    if change.action == "sequence":
        (small, least), *_, (large, most) = sorted(zip(sizes, values, strict=True))
        power = 2 if most * small > least * large else 1
    slope, start = linear_regression([size**power for size in sizes], values)
    first = start + slope * sizes[0] ** power
    if first <= 0:
        first, slope, start = fmean(values), 0.0, fmean(values)
    return float(max(start + slope * change.count**power, 0.0) / first)


_EVEN = f"""
SELECT rank, phase, op, median(ns) OVER (PARTITION BY phase, op) / ns AS ratio
FROM (
    SELECT rank, coalesce(phase, '') AS phase, coalesce(op, '') AS op, sum({OWN_NS}) AS ns
    FROM changed_edge
    WHERE part = 'work' AND work_kind = 'compute'
    GROUP BY ALL
)
WHERE ns > 0
"""


def even_ranks(edges: Edges, change: Change) -> list[str]:
    [(rank_count,)] = edges.run("SELECT count(DISTINCT rank) FROM trace")
    if rank_count < 2:
        raise QueryError(
            f"{change.text!r}: the trace has only one rank", hint="open the folder of all ranks"
        )
    edges.update(
        scaled("r.ratio"),
        "e.rank = r.rank AND coalesce(e.phase, '') = r.phase AND coalesce(e.op, '') = r.op "
        "AND e.part = 'work' AND e.work_kind = 'compute'",
        f"({_EVEN}) AS r",
    )
    return ["each rank computes for the median time of all ranks, by phase and op"]
