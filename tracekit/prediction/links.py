"""Changes to collectives: other links, other group sizes, or another algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, log2

from tracekit.analysis.relations import ensure_named
from tracekit.errors import QueryError
from tracekit.prediction.changes import Change
from tracekit.prediction.edges import Edges, where_of
from tracekit.sql_text import select_rows

_POINTS = """
SELECT b.op, b.group_size, b.message_bytes, b.median_ns, r.folder_name,
    coalesce(b.device_name, ''), b.device = 'cpu'
FROM benchmark AS b
INNER JOIN run AS r USING (run_id)
WHERE b.family = 'collective' AND b.outcome = 'ok' AND b.group_size > 1 AND b.median_ns > 0
"""

_POINT = {
    "op": "VARCHAR",
    "group_size": "BIGINT",
    "message_bytes": "BIGINT",
    "ns": "DOUBLE",
    "run": "VARCHAR",
}

# Latency measured by bench runs: the intercept of a line through the two smallest sizes.
_MEASURED = """
WITH point AS (
    SELECT collective_class(op) AS class, group_size, message_bytes, median(ns) AS ns,
        any_value(run) AS run
    FROM ({points})
    GROUP BY ALL
),
sized AS (
    SELECT *, row_number() OVER (PARTITION BY class, group_size ORDER BY message_bytes) AS place
    FROM point
)
SELECT class, group_size, any_value(run) AS run,
    greatest(
        least(regr_intercept(ns, message_bytes) FILTER (place <= 2), min(ns)), 0
    ) AS latency_ns,
    greatest(max_by(ns, message_bytes) - latency_ns, 0) / max(message_bytes) AS ns_per_byte
FROM sized
GROUP BY class, group_size
HAVING count(*) > 1
"""

# Transfers with their latency, as measured or fitted to the message sizes of the run.
_TRANSFERS = """
WITH transfer AS (
    SELECT e.edge_id, c.class, c.group_size, c.message_bytes, e.usual_ns,
        c.name ILIKE '%\\_tree%' ESCAPE '\\' AS is_tree
    FROM changed_edge AS e
    INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id
    INNER JOIN collective_events AS c
        ON s.trace_id = c.trace_id AND s.event_id = c.event_id AND s.piece = c.piece
    WHERE e.part = 'work' AND c.is_transfer AND c.message_bytes > 0 AND e.usual_ns > 0
),
size AS (
    SELECT class, group_size, message_bytes, median(usual_ns) AS ns FROM transfer GROUP BY ALL
),
fit AS (
    SELECT class, group_size,
        least(greatest(regr_intercept(ns, message_bytes), 0), min(ns)) AS latency_ns
    FROM size
    GROUP BY class, group_size
    HAVING count(*) > 1 AND max(message_bytes) >= 2 * min(message_bytes)
    AND regr_slope(ns, message_bytes) > 0
)
SELECT t.*, m.run, coalesce(m.latency_ns, f.latency_ns) AS whole_ns,
    if(whole_ns IS NULL, NULL, least(whole_ns, t.usual_ns)) AS latency_ns
FROM transfer AS t
LEFT JOIN fit AS f USING (class, group_size)
LEFT JOIN changed_measured AS m USING (class, group_size)
"""


def _fit_transfers(edges: Edges, change: Change) -> list[str]:
    """Measure or fit the latency of each transfer; return the assumptions."""
    points = [row for ask in edges.every_run for row in ask(_POINTS)]
    names = {name for (name,) in edges.run("SELECT lower(name) FROM device WHERE name IS NOT NULL")}
    is_cpu = edges.count("device = 'cpu'") > 0
    here = [
        point
        for *point, name, is_of_cpu in points
        if is_of_cpu == is_cpu and (is_cpu or not names or name.lower() in names)
    ]
    if points and not here:
        raise QueryError(
            f"{change.text!r}: collectives were measured on {points[0][5]}, but the trace "
            "is from another device"
        )
    ensure_named(edges.connection, "collective_class()")
    edges.create("changed_measured", _MEASURED.format(points=select_rows(_POINT, here)))
    edges.create("changed_transfer", _TRANSFERS)
    edges.update(
        "other_ns = round(t.latency_ns)",
        "e.edge_id = t.edge_id AND t.latency_ns IS NOT NULL",
        "changed_transfer AS t",
    )
    [(count, fitted, measured, measured_in)] = edges.run(
        "SELECT count(*), count(latency_ns), count(run), string_agg(DISTINCT run, ', ') "
        "FROM changed_transfer"
    )
    if not count:
        raise QueryError(f"{change.text!r}: no collective has a known message size")
    if change.keyword in ("latency", "algorithm") and not fitted:
        raise QueryError(
            f"{change.text!r}: latency and bandwidth cannot be separated",
            hint="use a trace with collectives of one kind and several message sizes, or "
            "pass a run of tracekit bench collectives (--peak-rates)",
        )
    by = "fitted to the message sizes of the run"
    if measured:
        by = f"with the measured latency for {measured} of {count} ({measured_in})"
    assumptions = [f"a collective takes latency plus bytes over bandwidth, {by}"]
    if fitted < count:
        assumptions.append(
            f"{count - fitted} of {count} collectives have only one message size and "
            "are modeled without latency"
        )
    if edges.count("kind = 'work' AND work_kind = 'comm' AND usual_ns > 0"):
        assumptions.append("waits for ranks without a trace count as transfer")
    return assumptions


def _scale_transfers(edges: Edges, change: Change, ratios: str) -> None:
    edges.update(
        "factor = factor * r.of_bytes, other_factor = other_factor * r.of_latency",
        where_of(change, "e.edge_id = r.edge_id"),
        f"({ratios}) AS r",
    )


def change_links(edges: Edges, change: Change) -> list[str]:
    assumptions = _fit_transfers(edges, change)
    ratio = f"1.0 AS of_latency, {1 / change.factor!r} AS of_bytes"
    if change.keyword == "latency":
        ratio = f"{change.factor!r} AS of_latency, 1.0 AS of_bytes"
    _scale_transfers(edges, change, f"SELECT edge_id, {ratio} FROM changed_transfer")
    return assumptions


def _steps(rank_count: int) -> int:
    return ceil(log2(rank_count))


# For n ranks, the number of sequential messages and the sent bytes relative to the size.
# Algorithms: ring; two pipelined trees (Sanders, Speck, Träff 2009); recursive halving and doubling
# (Thakur, Rabenseifner, Gropp 2005).
_ALGORITHMS: Mapping[str, Mapping[str, Callable[[int], tuple[float, float]]]] = {
    "ring": {
        "allreduce": lambda n: (2 * (n - 1), 2 * (n - 1) / n),
        "broadcast": lambda n: (n - 1, 1),
        **dict.fromkeys(("allgather", "reducescatter", "alltoall"), lambda n: (n - 1, (n - 1) / n)),
    },
    "tree": {
        "allreduce": lambda n: (2 * _steps(n), 2),
        "broadcast": lambda n: (_steps(n), 1),
    },
    "halving": {
        "allreduce": lambda n: (2 * _steps(n), 2 * (n - 1) / n),
        **dict.fromkeys(("allgather", "reducescatter"), lambda n: (_steps(n), (n - 1) / n)),
    },
}

_KINDS = """
SELECT t.class, t.group_size, t.is_tree, collective_of(t.class), count(*),
    any_value(other.latency_ns / nullif(own.latency_ns, 0)),
    any_value(other.ns_per_byte / nullif(own.ns_per_byte, 0)),
    bool_or(own.run IS NOT NULL AND other.run IS NOT NULL)
FROM changed_transfer AS t
LEFT JOIN changed_measured AS own USING (class, group_size)
LEFT JOIN changed_measured AS other ON t.class = other.class AND other.group_size = {count}
WHERE t.group_size > 1
GROUP BY t.class, t.group_size, t.is_tree
ORDER BY t.class
"""


def change_collectives(edges: Edges, change: Change) -> list[str]:
    assumptions = _fit_transfers(edges, change)
    kinds = edges.run(_KINDS.format(count=change.count))
    if not kinds:
        raise QueryError(f"{change.text!r}: no collective runs in a group of several ranks")
    ratios = []
    for name, size, is_tree, collective, _, *measured, _ in kinds:
        ratio = [1.0, 1.0]
        if before := _ALGORITHMS["tree" if is_tree else "ring"].get(collective):
            after = _ALGORITHMS[change.device].get(collective, before) if change.device else before
            costs = zip(after(change.count or size), before(size), strict=True)
            ratio = [new / old for new, old in costs]
        known = (new if new is not None else old for new, old in zip(measured, ratio, strict=True))
        ratios.append((name, size, is_tree, *known))
    types = {"class": "VARCHAR", "group_size": "BIGINT", "is_tree": "BOOLEAN"}
    types |= {"of_latency": "DOUBLE", "of_bytes": "DOUBLE"}
    _scale_transfers(
        edges,
        change,
        "SELECT edge_id, of_latency, of_bytes FROM changed_transfer "
        f"INNER JOIN ({select_rows(types, ratios)}) USING (class, group_size, is_tree)",
    )
    assumptions.append(
        f"{sum(kind[4] for kind in kinds)} recorded collectives use ring algorithms"
        + (", or trees according to their names" if any(kind[2] for kind in kinds) else "")
        + (
            "; collectives other than all-reduce, all-gather, reduce-scatter, "
            "all-to-all, and broadcast are unchanged"
        )
    )
    if change.count:
        if of_both := dict.fromkeys(kind[0] for kind in kinds if kind[-1]):
            assumptions.append(f"times measured with {change.count} ranks: {', '.join(of_both)}")
        assumptions += [
            (
                f"links between {change.count} ranks are as fast as recorded, and no rank is "
                "slower than the recorded ones"
            ),
            "compute per rank and message sizes are unchanged",
        ]
    return assumptions


def hide_communication(edges: Edges, change: Change) -> list[str]:
    """Overlap gradient reductions with the backward pass; only the optimizer waits for them."""
    # The backward pass needs the results of gathers and exchanges, so they still block it.
    waits = (
        "kind IN ('event', 'stream', 'posted_wait') AND coalesce(work_kind <> 'comm', TRUE) "
        "AND coalesce(phase = 'backward', FALSE) AND source_node IN ("
        "SELECT target_node FROM changed_edge WHERE part = 'work' AND work_kind = 'comm' "
        "AND collective_of(class) NOT IN ('allgather', 'alltoall', 'p2p') AND phase = 'backward')"
    )
    edges.need(waits, change, "no compute that waits for backward communication")
    edges.add(
        "SELECT w.trace_id, w.source_node, o.target_node, 'event' AS kind, 'gap' AS part, "
        f"w.source_ns, o.target_ns, 0 AS ns FROM (FROM changed_edge WHERE {waits}) AS w "
        "ASOF INNER JOIN (FROM changed_edge WHERE kind = 'launch' AND phase = 'optimizer') AS o "
        "ON w.trace_id = o.trace_id AND w.source_ns <= o.target_ns"
    )
    edges.run(f"DELETE FROM changed_edge WHERE {waits}")
    return ["the optimizer is the first to need the results of backward communication"]
