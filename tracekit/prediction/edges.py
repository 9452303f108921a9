"""Edges of a dependency graph under a change: one table, updated by SQL for each change.

Every edge has factors for its weight, so that changes of the same work multiply: one for Python or
transfer latency, one for data loading, one for everything else. Ranges leave a share of it. The
replay uses the remaining weight. Work that a method adds has edges of its own, whose nodes are
listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from tracekit.analysis.relations import ensure_named
from tracekit.database.connections import SESSION
from tracekit.errors import QueryError, UsageError
from tracekit.prediction.changes import COLUMNS, REMOVE, WORKERS, Change
from tracekit.sql_text import quote

TABLE = f"{SESSION}.main.changed_edge"
"""The edge table of a prediction."""

ADDED = f"{TABLE}_added"
"""Columns of added work: end node, copied span, and a span on the same lane.

Batches of workers copy no span; they have a worker and a duration.
"""

ENTERED = f"{TABLE}_entered"
"""Position on a thread: next span, recorded time, first and last node."""

WEIGHTS = ("quick", "usual", "slow")
"""Percentile of usual latencies and gaps per variant, as columns of graph_weight."""

# Times that a replay reports: start of work (0), end of work (one per step of a trace), and start
# of the first step.
_CREATE = """
CREATE OR REPLACE TABLE {table} AS
WITH step AS (
    SELECT trace_id, step, row_number() OVER (ORDER BY trace_id, step NULLS FIRST) AS moment
    FROM (SELECT DISTINCT trace_id, step FROM graph_span WHERE kind = 'work')
),
begun AS (
    SELECT node, (SELECT count(*) FROM step) + dense_rank() OVER (ORDER BY trace_id) AS moment
    FROM step_bound
    SEMI JOIN graph_edge ON node = target_node
    SEMI JOIN step_ranges USING (trace_id)
    WHERE bound = 0
)
SELECT
    e.edge_id, e.trace_id, e.source_node, e.target_node, e.kind, e.known_by, e.source_ns,
    e.target_ns, e.weight_ns, least(e.loading_ns, w.usual_ns) AS loading_ns,
    w.* EXCLUDE (edge_id), f.* EXCLUDE (edge_id, span_id),
    (n.node IS NOT NULL)::BIGINT AS is_end,
    if(
        f.part = 'host',
        greatest(e.weight_ns - e.loading_ns - f.op_ns, 0)
        / greatest(e.weight_ns - e.loading_ns, 1) * greatest(w.usual_ns - e.loading_ns, 0),
        0
    )::BIGINT AS other_ns,
    1.0::DOUBLE AS factor,
    1.0::DOUBLE AS other_factor,
    1.0::DOUBLE AS loading_factor,
    1.0::DOUBLE AS kept,
    0::BIGINT AS ranged_ns,
    1.0::DOUBLE AS copies,
    0::BIGINT AS contended_ns,
    coalesce(b.moment, m.moment * (e.target_node % 2)) AS moment,
    m.step AS moment_step
FROM graph_edge AS e
INNER JOIN {weights} AS w USING (edge_id)
INNER JOIN edge_fact AS f USING (edge_id)
LEFT JOIN graph_end AS n ON e.target_node = n.node
LEFT JOIN graph_span AS s
    ON e.target_node // 2 = s.span_id AND e.target_node > 0 AND s.kind = 'work'
LEFT JOIN step AS m ON s.trace_id = m.trace_id AND s.step IS NOT DISTINCT FROM m.step
LEFT JOIN begun AS b ON e.target_node = b.node
ORDER BY e.edge_id
"""

VARIANTS = (
    ("usual", True),
    ("quick", True),
    ("slow", True),
    ("usual", False),
    ("quick", False),
)
"""Variants of a replay: latency percentile, and whether unexplained time remains. The first is the
prediction, the others form its interval."""


def own_ns(weight: str = "usual") -> str:
    """Return the SQL expression for the changed weight of an edge without data loading, ns."""
    return f"(({weight}_ns - loading_ns - other_ns) * factor + other_ns * other_factor) * kept"


def left_ns(weight: str) -> str:
    """Return the SQL expression for the changed weight of an edge, ns."""
    return f"round({own_ns(weight)} + loading_ns * loading_factor * kept)::BIGINT"


def _weight(weight: str, is_carried: bool) -> str:
    # Only work scales its rest; other rests are unexplained time.
    rest = f"if(part = 'work', round({weight}_rest_ns * factor * kept)::BIGINT, {weight}_rest_ns)"
    left = f"{left_ns(weight)} + contended_ns"
    return f"{left} + {rest}" if is_carried else left


EDGES = (
    f"SELECT edge_id, source_node, target_node, {_weight(*VARIANTS[0])} AS weight_ns, target_ns, "
    f"is_end FROM {TABLE} ORDER BY edge_id"
)
"""Columns of edges that the replay needs for the times of all nodes."""

MOMENTS = (
    "SELECT source_node, target_node, target_ns, moment, "
    + ", ".join(f"{_weight(*one)} AS weight_{i}_ns" for i, one in enumerate(VARIANTS))
    + f" FROM {TABLE}"
)
"""The same with the weights of all :data:`VARIANTS`, in table order."""


def create_edges(connection: duckdb.DuckDBPyConnection, weights: str = "graph_weight") -> None:
    """Create the edges with the weights of the profiled or the unprofiled run (``run_weight``)."""
    connection.execute(_CREATE.format(table=TABLE, weights=weights))
    drop(connection, "ranged")
    connection.execute(
        f"CREATE OR REPLACE TABLE {ADDED} (end_node BIGINT, span_id BIGINT, near_id BIGINT, "
        "root VARCHAR, worker BIGINT, ns BIGINT)"
    )
    connection.execute(
        f"CREATE OR REPLACE TABLE {ENTERED} "
        "(near_id BIGINT, recorded_ns BIGINT, first_node BIGINT, last_node BIGINT)"
    )


def where_of(change: Change, *parts: str) -> str:
    """Return the SQL condition for edges that match all terms of a change and `parts`."""
    chosen = [f"{column}::VARCHAR GLOB {quote(glob)}" for column, glob in change.terms]
    return " AND ".join([*parts, *chosen])


def _count(connection: duckdb.DuckDBPyConnection, where: str) -> int:
    found = connection.execute(f"SELECT count(*) FROM {TABLE} WHERE {where}").fetchone()
    return int(found[0]) if found else 0


class NothingChosenError(QueryError):
    """No edge matches a change."""


def need(
    connection: duckdb.DuckDBPyConnection,
    where: str,
    change: Change,
    what: str,
    hint: str | None = None,
) -> None:
    """Raise if no edge matches, with the available values as a hint.

    Raises:
        NothingChosenError: no edge matches.
    """
    if _count(connection, where):
        return
    if change.terms:
        column = change.terms[0][0]
        found = connection.execute(
            f"SELECT {column}::VARCHAR FROM {TABLE} WHERE part = 'work' AND {column} IS NOT NULL "
            "GROUP BY 1 ORDER BY sum(usual_ns) DESC, 1 LIMIT 6"
        ).fetchall()
        name = next(name for name, other in COLUMNS.items() if other == column)
        hint = f"{name} in this trace: {', '.join(value for (value,) in found) or 'none'}"
    raise NothingChosenError(f"{change.text!r}: {what} in this trace", hint=hint)


def update(connection: duckdb.DuckDBPyConnection, assignment: str, where: str) -> None:
    """Update columns of edges."""
    connection.execute(f"UPDATE {TABLE} SET {assignment} WHERE {where}")


def scaled(factor: float | str) -> str:
    """Return the SQL assignment that scales edges, except data loading."""
    return f"factor = factor * {factor}, other_factor = other_factor * {factor}"


def add_edges(connection: duckdb.DuckDBPyConnection, rows: str) -> None:
    """Add edges that a change assumes, from rows of nodes, times, kind, part, and weights."""
    connection.execute(
        f"INSERT INTO {TABLE} BY NAME SELECT (SELECT max(edge_id) FROM {TABLE}) "
        "+ row_number() OVER () AS edge_id, 'assumed' AS known_by, 0 AS is_end, 0 AS loading_ns, "
        "0 AS other_ns, 1.0 AS factor, 1.0 AS other_factor, 1.0 AS loading_factor, 1.0 AS kept, "
        "0 AS ranged_ns, 1.0 AS copies, 0 AS contended_ns, "
        "0 AS quick_rest_ns, 0 AS usual_rest_ns, 0 AS slow_rest_ns, "
        f"e.* FROM ({rows}) AS e"
    )


def _change_work(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    columns = [column for column, _ in change.terms]
    if {"range", "call"} & {*columns} or (change.action == REMOVE and "op" in columns):
        return _change_inside(connection, change)
    where = where_of(change, "part = 'work'")
    need(connection, where, change, "no matching work")
    if change.action == REMOVE:
        remove_work(connection, where)
        return ["the CPU time of the ops remains, without the launch"]
    update(connection, scaled(change.factor), where)
    return [] if change.factor == 1 else ["other GPU work is unchanged"]


def drop(connection: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Drop temporary tables of a change, if they exist."""
    for name in names:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}_{name}")


def remove_work(connection: duckdb.DuckDBPyConnection, where: str) -> None:
    """Remove work, calls that launched nothing else, and waits for either."""
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_gone AS "
        f"SELECT target_node // 2 AS span_id FROM {TABLE} WHERE {where}"
    )
    gone = f"(SELECT span_id FROM {TABLE}_gone)"
    update(
        connection, "kept = 0", f"part IN ('work', 'latency', 'gap') AND target_node // 2 IN {gone}"
    )
    # Ranks do not wait for a collective that is removed.
    for kind, end in (("meeting", "source"), ("transfer", "target"), ("posted_wait", "source")):
        connection.execute(
            f"DELETE FROM {TABLE} WHERE kind = '{kind}' AND {end}_node // 2 IN {gone}"
        )
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_gone AS "
        f"SELECT source_node // 2 AS span_id FROM {TABLE} WHERE kind = 'launch' "
        f"GROUP BY 1 HAVING bool_and(target_node // 2 IN {gone})"
    )
    _remove_calls(connection)
    drop(connection, "gone")


def _remove_calls(connection: duckdb.DuckDBPyConnection) -> None:
    gone = f"(SELECT span_id FROM {TABLE}_gone)"
    update(connection, "kept = 0", f"part = 'call' AND target_node // 2 IN {gone}")
    connection.execute(f"DELETE FROM {TABLE} WHERE part = 'wait' AND target_node // 2 IN {gone}")


_INSIDE = {
    "op": "is_op(e.category)",
    "range": "(is_annotation(e.category) OR is_python_call(e.category) "
    "OR regexp_matches(e.name, '^(Torch-Compiled Region|CompiledFunction)'))",
    "call": "is_launch_call(e.category)",
}
"""Host events that are selected by name and change with everything inside them."""


def _change_inside(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    """Change the time of threads inside ops or ranges; removed ones take their launches along."""
    (by, glob) = next(term for term in change.terms if term[0] in _INSIDE)
    others = [term for term in change.terms if term != (by, glob)]
    if any(column in _INSIDE for column, _ in others):
        raise UsageError(f"{change.text!r}: select only one op, range, or call")
    rest = where_of(replace(change, terms=tuple(others)), "TRUE")
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_op AS "
        "SELECT (e.trace_id, e.pid, e.tid) AS part, e.ts_ns + c.shift_ns AS start_ns, "
        "e.ts_ns + e.dur_ns + c.shift_ns AS end_ns "
        "FROM event AS e INNER JOIN graph_clock AS c USING (trace_id) "
        f"WHERE {_INSIDE[by]} AND e.dur_ns > 0 AND e.name GLOB {quote(glob)}"
    )
    if not connection.execute(f"FROM {TABLE}_op LIMIT 1").fetchall():
        raise QueryError(f"{change.text!r}: no such {by} in this trace")
    change_spans(connection, change, by, rest, glob)
    if change.action != REMOVE:
        return [f"GPU work that the {by} launches is unchanged; only its time on the CPU is scaled"]
    return [f"nothing uses the result of the removed {by}"]


def change_spans(
    connection: duckdb.DuckDBPyConnection, change: Change, by: str, rest: str, glob: str = ""
) -> None:
    """Change thread time inside spans: the table of edges with `_op`.

    Args:
        connection: with that table, which is dropped.
        change: scales or removes.
        by: what the spans are, in a word.
        rest: SQL condition for edges that may change.
        glob: for ops, their name.

    Raises:
        QueryError: the spans contain nothing.
    """
    connection.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}_ranged AS FROM {TABLE}_op LIMIT 0")
    connection.execute(f"INSERT INTO {TABLE}_ranged FROM {TABLE}_op")
    # Host time inside these spans, and calls and CPU ops inside them.
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_part AS "
        "SELECT (e.trace_id, s.pid, s.tid) AS part, e.edge_id AS id, "
        "e.source_ns AS start_ns, e.target_ns AS end_ns, e.ranged_ns "
        f"FROM (FROM {TABLE} WHERE {rest}) AS e "
        "INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id "
        "WHERE e.part IN ('host', 'call', 'work') AND s.tid IS NOT NULL "
        "AND e.source_ns < e.target_ns"
    )
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_inside AS SELECT o.id AS edge_id, o.overlap_ns, "
        "greatest(o.overlap_ns + p.ranged_ns - a.overlap_ns, 0) AS again_ns, "
        "o.overlap_ns * 2 > p.end_ns - p.start_ns AS is_most "
        f"FROM interval_overlap('{TABLE}_part', '{TABLE}_op') AS o "
        f"INNER JOIN interval_overlap('{TABLE}_part', '{TABLE}_ranged') AS a USING (id) "
        f"INNER JOIN {TABLE}_part AS p USING (id) WHERE o.overlap_ns > 0"
    )
    if not connection.execute(f"FROM {TABLE}_inside LIMIT 1").fetchall():
        raise QueryError(f"{change.text!r}: no recorded work is inside such a {by}")
    # Waits are not part of a weight. Earlier changes of ranges are multiplied.
    connection.execute(
        f"UPDATE {TABLE} AS e SET ranged_ns = e.ranged_ns + i.overlap_ns - i.again_ns, "
        f"kept = e.kept - {1 - change.factor!r} * (least(i.overlap_ns / e.weight_ns, 1) "
        "- coalesce((1 - e.kept) * i.again_ns / nullif(e.ranged_ns, 0), 0)) "
        f"FROM {TABLE}_inside AS i "
        "WHERE e.edge_id = i.edge_id AND e.part = 'host' AND e.weight_ns > 0"
    )
    inside = f"edge_id IN (SELECT edge_id FROM {TABLE}_inside WHERE is_most)"
    if change.action == REMOVE:
        connection.execute(
            f"CREATE OR REPLACE TABLE {TABLE}_gone AS SELECT target_node // 2 AS span_id "
            f"FROM {TABLE} WHERE part = 'call' AND {inside}"
        )
        _remove_calls(connection)
        launched = (
            f"SELECT l.target_node // 2 FROM {TABLE} AS l WHERE l.kind = 'launch' "
            f"AND l.source_node // 2 IN (SELECT span_id FROM {TABLE}_gone)"
        )
        of_work = "part IN ('work', 'latency', 'gap')"
        update(connection, "kept = 0", f"{of_work} AND target_node // 2 IN ({launched})")
        if by == "op":
            # Work queued before the window has no launch, but the op of the work it repeats.
            unlaunched = (
                f"part = 'work' AND {rest} AND op GLOB {quote(glob)} AND device <> 'cpu' "
                f"AND target_node NOT IN (SELECT target_node + 1 FROM {TABLE} "
                "WHERE kind = 'launch')"
            )
            remove_work(connection, unlaunched)
    # On a CPU, the op is the work.
    chosen = "part = 'work' AND device = 'cpu'"
    if change.action != REMOVE:
        chosen = f"({chosen} OR part = 'call')"
    update(connection, scaled(change.factor), f"{chosen} AND {inside}")
    drop(connection, "op", "part", "inside", "gone")


PAUSE_NS = 1_000_000
"""Minimum host time outside ops between two calls that counts as a stall. Launches under a profiler
with Python stacks take much less."""

NAMED_NS = 100_000
"""A Python call or range of this length without launches counts as work of the program."""


def _change_host(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    where = where_of(change, "part = 'host'")
    need(connection, where, change, "no matching host time")
    _find_pauses(connection, where)
    update(connection, scaled(change.factor), where_of(change, "part IN ('host', 'call')"))
    # Stalls outside ops are unchanged.
    connection.execute(
        f"UPDATE {TABLE} AS e SET other_factor = e.other_factor * "
        f"(1 + ({1 / change.factor if change.factor else 0!r} - 1) * p.share) "
        f"FROM {TABLE}_pause AS p WHERE e.edge_id = p.edge_id AND {bool(change.factor)}"
    )
    connection.execute(
        f"UPDATE {TABLE} AS e SET other_factor = p.share "
        f"FROM {TABLE}_pause AS p WHERE e.edge_id = p.edge_id AND NOT {bool(change.factor)}"
    )
    found = connection.execute(f"SELECT sum(ns) / 1e6 FROM {TABLE}_pause").fetchone()
    drop(connection, "pause")
    assumptions = []
    if found and found[0]:
        assumptions.append("Python, I/O, and sleeps of the program are unchanged")
    if connection.execute(f"FROM {TABLE} WHERE device = 'cpu' LIMIT 1").fetchall():
        assumptions.append("on a CPU, ops are compute and not host time")
    return assumptions


def _find_pauses(connection: duckdb.DuckDBPyConnection, where: str) -> None:
    """Compute which share of the host's time outside ops launches nothing, by edge.

    All of it in a stall; else the part inside the program's calls or ranges without launches.
    """
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_pause AS "
        "WITH host AS MATERIALIZED ("
        "SELECT (e.trace_id, s.pid, s.tid) AS part, e.edge_id AS id, e.other_ns, "
        "e.source_ns AS start_ns, e.target_ns AS end_ns "
        f"FROM (FROM {TABLE} WHERE {where} AND other_ns > {NAMED_NS}) AS e "
        "INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id WHERE s.tid IS NOT NULL), "
        "called AS (SELECT (e.trace_id, e.pid, e.tid) AS part, e.ts_ns + c.shift_ns AS start_ns, "
        "e.ts_ns + e.dur_ns + c.shift_ns AS end_ns FROM event AS e "
        "INNER JOIN graph_clock AS c USING (trace_id) "
        f"WHERE e.dur_ns > {NAMED_NS} "
        "AND (is_annotation(e.category) OR is_python_call(e.category)) "
        "AND NOT starts_with(e.name, 'torch/') AND NOT contains(e.name, '/torch/')), "
        "launching AS (SELECT (l.trace_id, l.pid, l.tid) AS part, l.ts_ns + c.shift_ns AS ts_ns "
        "FROM launch AS l INNER JOIN graph_clock AS c USING (trace_id)), "
        "idle AS (SELECT c.part, c.start_ns, c.end_ns FROM called AS c "
        "ASOF LEFT JOIN launching AS l ON c.part = l.part AND c.start_ns <= l.ts_ns "
        "WHERE l.ts_ns IS NULL OR l.ts_ns >= c.end_ns) "
        "SELECT h.id AS edge_id, "
        f"if(h.other_ns > {PAUSE_NS}, h.other_ns, least(o.overlap_ns, h.other_ns)) AS ns, "
        "ns / h.other_ns AS share "
        "FROM host AS h INNER JOIN interval_overlap('host', 'idle') AS o USING (id) WHERE ns > 0"
    )


def _change_pauses(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    """Change host stalls that recur in steps, on all host threads."""
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_op AS "
        "SELECT (p.trace_id, s.pid, s.tid) AS part, p.start_ns + c.shift_ns AS start_ns, "
        "p.end_ns + c.shift_ns AS end_ns FROM host_pauses AS p "
        "INNER JOIN graph_clock AS c USING (trace_id) "
        "INNER JOIN (SELECT DISTINCT trace_id, pid, tid FROM graph_span WHERE tid IS NOT NULL) "
        "AS s USING (trace_id) WHERE p.is_repeated"
    )
    if not connection.execute(f"FROM {TABLE}_op LIMIT 1").fetchall():
        raise QueryError(
            f"{change.text!r}: no stall of 2 ms without a host event recurs at one place "
            "in half of the steps"
        )
    change_spans(connection, change, "pause", where_of(change, "TRUE"))
    return ["no later work needs what the program did or waited for during the stalls"]


def _change_python(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    where = where_of(change, "part = 'host'")
    need(connection, where, change, "no matching host time")
    update(connection, f"other_factor = other_factor * {change.factor!r}", where)
    return ["time outside ops is Python"]


def _change_launches(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    launching = f"target_node // 2 IN (SELECT source_node // 2 FROM {TABLE} WHERE kind = 'launch')"
    where = where_of(change, "part = 'call'", launching)
    need(connection, where, change, "no matching launch")
    update(connection, scaled(change.factor), where)
    return ["ops and Python around launches remain; a captured graph has neither"]


_IN_GRAPH_NS = (350, 420, 600)
"""Gap between two kernels in a CUDA graph: percentiles 10, 50, and 90.

From 1,785 kernels of a captured step on an H200.
"""

_GRAPH_LAUNCH_NS = 15_000

_GAPS_IN_GRAPHS = f"""
SELECT quantile_disc(e.target_ns - e.source_ns, [0.1, 0.5, 0.9])
FROM {TABLE} AS e
INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id
INNER JOIN launch AS l ON s.trace_id = l.trace_id AND s.launch_id = l.launch_id
WHERE e.kind = 'stream' AND contains(l.name, 'GraphLaunch') AND e.target_ns - e.source_ns < 3000
HAVING count(*) >= 100
"""


def _capture_steps(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    """Launch the work of each step with one CUDA graph."""
    if not connection.execute(
        "FROM launch WHERE regexp_matches(name, '^(cuda|cu[A-Z]|hip)') LIMIT 1"
    ).fetchall():
        raise QueryError(f"{change.text!r}: no work in this trace was launched by CUDA or HIP")
    waits = connection.execute(
        "SELECT count(*) / nullif(count(DISTINCT (trace_id, step)), 0) FROM graph_breaks"
    ).fetchone()
    starts = (
        "SELECT m.trace_id, m.span_id * 2 AS source_node, "
        "arg_min(w.span_id, (w.start_ns, w.span_id)) * 2 AS target_node, 'launch' AS kind, "
        "'latency' AS part, m.start_ns AS source_ns, min(w.start_ns) AS target_ns, "
        + ", ".join(f"{_GRAPH_LAUNCH_NS} AS {weight}_ns" for weight in WEIGHTS)
        + " FROM graph_span AS m INNER JOIN graph_span AS w USING (trace_id, step) "
        "WHERE m.name = 'step start' AND m.kind = 'mark' AND w.kind = 'work' "
        "AND w.device <> 'cpu' AND w.start_ns >= m.start_ns "
        "GROUP BY m.trace_id, m.span_id, m.start_ns, w.step"
    )
    if not connection.execute(f"{starts} LIMIT 1").fetchall():
        raise QueryError(f"{change.text!r}: no marked step in this trace has GPU work")
    found = connection.execute(_GAPS_IN_GRAPHS).fetchone()
    quick_ns, usual_ns, slow_ns = found[0] if found else _IN_GRAPH_NS
    assumed = _change_host(connection, replace(change, keyword="host", action=REMOVE, factor=0.0))
    no_rest = ", ".join(f"{weight}_rest_ns = 0" for weight in WEIGHTS)
    update(
        connection,
        f"quick_ns = {quick_ns}, usual_ns = {usual_ns}, slow_ns = {slow_ns}, {no_rest}",
        "kind = 'stream'",
    )
    update(connection, f"kept = 0, {no_rest}", "part = 'latency'")
    add_edges(connection, starts)
    regions = "each step is one CUDA graph"
    if waits and waits[0]:
        weights = ", ".join(f"{weight}_ns = {_GRAPH_LAUNCH_NS}" for weight in WEIGHTS)
        update(
            connection,
            f"{weights}, other_ns = 0, factor = 1, kept = 1",
            f"part = 'host' AND source_node IN (SELECT target_node FROM {TABLE} "
            "WHERE kind IN ('copy', 'sync'))",
        )
        regions = f"CUDA graphs cover the work between GPU syncs ({waits[0]:.0f} per step)"
    assumed += [
        f"{regions}, with static shapes",
        f"kernels in a CUDA graph are {usual_ns / 1e3:.2f} µs apart",
    ]
    if _count(connection, "part = 'work' AND phase = 'optimizer'"):
        # Capturable Adam in one program: 284 more kernels, 4.4 instead of 1.2 ms.
        update(connection, "slow_ns = slow_ns * 1.25", "part = 'work' AND device <> 'cpu'")
        assumed.append(
            "a capturable optimizer adds small kernels (the interval allows 25 % more GPU work)"
        )
    return assumed


def _remove_waits(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    where = where_of(change, "kind IN ('copy', 'sync', 'implicit_sync')")
    need(connection, where, change, "no host wait that is followed by GPU work")
    connection.execute(f"DELETE FROM {TABLE} WHERE {where}")
    return ["the host does not need the result that it waited for"]


def _change_loading(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    where = where_of(change, "loading_ns > 0")
    hint = "if the loop itself loads data, try 'pauses remove'"
    need(connection, where, change, "no data loading", hint)
    if change.action == WORKERS and _count(connection, "kind = 'batch'"):
        raise QueryError(
            f"{change.text!r}: workers already load the data, and their time per batch is "
            "not recorded"
        )
    _find_loading(connection, change)
    if change.action == WORKERS:
        _add_workers(connection, change.count)
    if change.action == REMOVE:
        connection.execute(f"DELETE FROM {TABLE} WHERE kind = 'batch' AND {where}")
    kept = 0.0 if change.action == WORKERS else change.factor
    loaded = f"edge_id IN (SELECT edge_id FROM {TABLE}_loaded)"
    update(connection, scaled(kept), f"part = 'work' AND {loaded}")
    update(connection, f"loading_factor = loading_factor * {kept!r}", where)
    drop(connection, "loaded")
    if change.action != WORKERS:
        return []
    return [
        (
            f"each of {change.count} workers loads a batch in the recorded time and stays at "
            "most two ahead"
        ),
        "handing over a batch takes no time (the interval allows 1 ms)",
        "workers start before the window and do not slow other work",
    ]


def _find_loading(connection: duckdb.DuckDBPyConnection, change: Change) -> None:
    """Create a table of the edges inside data loaders with the number of the call; also CPU ops."""
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_loader AS "
        "SELECT (w.trace_id, w.pid, w.tid) AS part, w.ts_ns + c.shift_ns AS start_ns, "
        "w.ts_ns + w.dur_ns + c.shift_ns AS end_ns "
        "FROM host_waits AS w INNER JOIN graph_clock AS c USING (trace_id) "
        "WHERE w.kind = 'data_loading'"
    )
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_loaded AS "
        "SELECT e.edge_id, e.trace_id, e.target_node, e.source_ns, e.target_ns, "
        f"if(e.part = 'work', {own_ns()}, e.loading_ns * e.loading_factor * e.kept) AS ns, "
        "l.start_ns AS called_ns "
        f"FROM (FROM {TABLE} WHERE {where_of(change, 'TRUE')}) AS e "
        "INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id "
        f"ASOF INNER JOIN interval_union('{TABLE}_loader') AS l "
        "ON (e.trace_id, s.pid, s.tid) = l.part AND e.target_ns > l.start_ns "
        "WHERE s.tid IS NOT NULL AND (e.loading_ns > 0 OR e.part = 'work' "
        "AND e.source_ns >= l.start_ns AND e.target_ns <= l.end_ns)"
    )
    drop(connection, "loader")


# Six batches in a public trace took 0.1 to 4 ms (median 1.3), because torch passes the memory
# descriptor through a socket.
_HANDOVER_NS = 1_000_000


def _add_workers(connection: duckdb.DuckDBPyConnection, count: int) -> None:
    """Move data loading to workers.

    Batch k is ready when its worker has produced it. The worker starts when its previous batch is
    ready, and is at most two batches ahead of the consumer.
    """
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_batch AS SELECT trace_id, sum(ns)::BIGINT AS ns, "
        "arg_max(target_node, target_ns) AS target_node, min(source_ns) AS source_ns, "
        "max(target_ns) AS target_ns, row_number() OVER (ORDER BY trace_id, called_ns) "
        f"- (SELECT least(min(source_node), 0) FROM {TABLE}) AS number_of_all, "
        "row_number() OVER (PARTITION BY trace_id ORDER BY called_ns) AS number "
        f"FROM {TABLE}_loaded GROUP BY trace_id, called_ns"
    )
    rows = (
        "SELECT l.trace_id, {source} AS source_node, {target} AS target_node, 'loading' AS kind, "
        "'wait' AS part, l.source_ns, l.target_ns, {weight} AS quick_ns, {weight} AS usual_ns, "
        f"{{weight}} AS slow_ns FROM {TABLE}_batch AS l {{join}}"
    )
    before = (
        f"INNER JOIN {TABLE}_batch AS b ON l.trace_id = b.trace_id AND l.number - {{n}} = b.number"
    )
    for source, target, weight, join in (
        # Workers take turns: those that started earlier finish in order.
        ("0", "-l.number_of_all", f"l.ns * least(l.number - 1, {count}) // {count}", ""),
        ("-b.number_of_all", "-l.number_of_all", "l.ns", before.format(n=count)),
        ("b.target_node", "-l.number_of_all", "l.ns", before.format(n=2 * count)),
        ("-l.number_of_all", "l.target_node", "0", ""),
    ):
        add_edges(connection, rows.format(source=source, target=target, weight=weight, join=join))
    connection.execute(
        f"INSERT INTO {ADDED} BY NAME SELECT -number_of_all AS end_node, "
        f"target_node // 2 AS near_id, (number - 1) % {count} + 1 AS worker, ns FROM {TABLE}_batch"
    )
    update(
        connection,
        f"slow_ns = slow_ns + {_HANDOVER_NS}",
        f"part = 'host' AND target_node IN (SELECT target_node FROM {TABLE}_batch)",
    )
    drop(connection, "batch")


MEASURED = f"{TABLE}_measured"
"""Benchmarks of collectives by class and group size."""

_POINTS = (
    "SELECT b.op, b.group_size, b.message_bytes, b.median_ns, b.device_name, r.folder_name, "
    "b.device = 'cpu' FROM benchmark AS b INNER JOIN run AS r USING (run_id) "
    "WHERE b.family = 'collective' AND b.outcome = 'ok' AND b.group_size > 1 AND b.median_ns > 0"
)


def lay_measured(
    connection: duckdb.DuckDBPyConnection,
    change: Change,
    runs: Sequence[Callable[[str], Sequence[Sequence[Any]]]],
) -> None:
    """Create a table with the measured latency and time per byte of collectives.

    Args:
        connection: to a store with the edges.
        change: the requested change.
        runs: query functions for this run and further ones.

    Raises:
        QueryError: the benchmarks are from another device.
    """
    points = [row for ask in runs for row in ask(_POINTS)]
    names = connection.execute("SELECT lower(name) FROM device WHERE name IS NOT NULL").fetchall()
    is_cpu = _count(connection, "device = 'cpu'") > 0
    here = [
        row[:6]
        for row in points
        if row[6] == is_cpu and (is_cpu or not names or ((row[4] or "").lower(),) in names)
    ]
    if points and not here:
        raise QueryError(
            f"{change.text!r}: collectives were measured on {points[0][4]}, but the trace "
            "is from another device"
        )
    ensure_named(connection, "collective_class()")
    # The latency is the intercept of a line through the two smallest sizes.
    connection.execute(
        f"CREATE OR REPLACE TABLE {MEASURED} AS WITH point AS ("
        "SELECT collective_class(op) AS class, group_size, message_bytes, median(ns) AS ns, "
        "any_value(run) AS run FROM (SELECT unnest(?::VARCHAR[]) AS op, "
        "unnest(?::BIGINT[]) AS group_size, unnest(?::BIGINT[]) AS message_bytes, "
        "unnest(?::DOUBLE[]) AS ns, unnest(?::VARCHAR[]) AS device, unnest(?::VARCHAR[]) AS run) "
        "GROUP BY ALL), sized AS (SELECT *, row_number() OVER (PARTITION BY class, group_size "
        "ORDER BY message_bytes) AS place FROM point) "
        "SELECT class, group_size, greatest(least(regr_intercept(ns, message_bytes) "
        "FILTER (place <= 2), min(ns)), 0) AS latency_ns, "
        "greatest(max_by(ns, message_bytes) - latency_ns, 0) / max(message_bytes) AS ns_per_byte, "
        "any_value(run) AS run FROM sized GROUP BY class, group_size HAVING count(*) > 1",
        [[row[i] for row in here] for i in range(6)],
    )


def fit_transfers(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    """Separate the latency of each transfer, as measured or fitted to the run's message sizes.

    Returns:
        Assumptions.

    Raises:
        QueryError: no collective has a known size, or the requested latency cannot be separated.
    """
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_transfer AS WITH transfer AS ("
        "SELECT e.edge_id, c.class, c.group_size, c.message_bytes, e.usual_ns, "
        "c.name ILIKE '%\\_tree%' ESCAPE '\\' AS is_tree "
        f"FROM {TABLE} AS e INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id "
        "INNER JOIN collective_events AS c "
        "ON s.trace_id = c.trace_id AND s.event_id = c.event_id AND s.piece = c.piece "
        "WHERE e.part = 'work' AND c.is_transfer AND c.message_bytes > 0 AND e.usual_ns > 0), "
        "size AS (SELECT class, group_size, message_bytes, median(usual_ns) AS ns "
        "FROM transfer GROUP BY ALL), fit AS (SELECT class, group_size, "
        "least(greatest(regr_intercept(ns, message_bytes), 0), min(ns)) AS latency_ns "
        "FROM size GROUP BY class, group_size "
        "HAVING count(*) > 1 AND max(message_bytes) >= 2 * min(message_bytes) "
        "AND regr_slope(ns, message_bytes) > 0) "
        "SELECT t.*, coalesce(m.latency_ns, f.latency_ns) AS whole_ns, "
        "whole_ns - greatest(whole_ns - t.usual_ns, 0) AS latency_ns "
        "FROM transfer AS t LEFT JOIN fit AS f USING (class, group_size) "
        f"LEFT JOIN {MEASURED} AS m USING (class, group_size)"
    )
    connection.execute(
        f"UPDATE {TABLE} AS e SET other_ns = round(t.latency_ns) FROM {TABLE}_transfer AS t "
        "WHERE e.edge_id = t.edge_id AND t.latency_ns IS NOT NULL"
    )
    unmatched = _count(connection, "kind = 'work' AND work_kind = 'comm' AND usual_ns > 0")
    found = connection.execute(
        "SELECT count(*), count(t.latency_ns), count(m.run), string_agg(DISTINCT m.run, ', ') "
        f"FROM {TABLE}_transfer AS t LEFT JOIN {MEASURED} AS m USING (class, group_size)"
    ).fetchone()
    count, fitted, measured, measured_in = found or (0, 0, 0, None)
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
            "count as bandwidth alone"
        )
    if unmatched:
        assumptions.append("waits for ranks without a trace count as transfer")
    return assumptions


def _change_links(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    assumptions = fit_transfers(connection, change)
    is_bandwidth = change.keyword == "bandwidth"
    of_latency, of_bytes = (1.0, 1 / change.factor) if is_bandwidth else (change.factor, 1.0)
    scale_transfers(
        connection, change, f"SELECT *, {of_latency!r}, {of_bytes!r} FROM {TABLE}_transfer"
    )
    return assumptions


def scale_transfers(connection: duckdb.DuckDBPyConnection, change: Change, ratios: str) -> None:
    """Scale the latency and the rest of each transfer, and drop the temporary tables.

    Args:
        connection: one for which :func:`fit_transfers` was called.
        change: its terms select transfers.
        ratios: returns rows of the transfer table with the two ratios as last columns.
    """
    connection.execute(
        f"UPDATE {TABLE} AS e SET factor = factor * r.of_bytes, "
        "other_factor = other_factor * r.of_latency "
        f"FROM ({ratios}) AS r(edge_id, class, group_size, message_bytes, usual_ns, is_tree, "
        "whole_ns, latency_ns, of_latency, of_bytes) WHERE e.edge_id = r.edge_id "
        f"AND e.edge_id IN (SELECT edge_id FROM {TABLE} WHERE {where_of(change, 'TRUE')})"
    )
    drop(connection, "transfer")


def _hide_communication(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    # The backward pass needs gathered and exchanged data itself.
    comm = (
        f"SELECT target_node FROM {TABLE} WHERE part = 'work' AND work_kind = 'comm' "
        "AND collective_of(class) NOT IN ('allgather', 'alltoall', 'p2p')"
    )
    # Only the optimizer needs reduced gradients.
    waits = (
        "kind IN ('event', 'stream', 'posted_wait') AND coalesce(work_kind <> 'comm', TRUE) "
        "AND coalesce(phase = 'backward', FALSE) AND source_node IN "
        f"({comm} AND phase = 'backward')"
    )
    need(connection, waits, change, "no compute that waits for backward communication")
    add_edges(
        connection,
        "SELECT w.trace_id, w.source_node, o.target_node, 'event' AS kind, 'gap' AS part, "
        "w.source_ns, o.target_ns, 0 AS quick_ns, 0 AS usual_ns, 0 AS slow_ns "
        f"FROM (FROM {TABLE} WHERE {waits}) AS w ASOF INNER JOIN (FROM {TABLE} "
        "WHERE kind = 'launch' AND phase = 'optimizer') AS o "
        "ON w.trace_id = o.trace_id AND w.source_ns <= o.target_ns",
    )
    connection.execute(f"DELETE FROM {TABLE} WHERE {waits}")
    return ["the optimizer is the first to need the results of backward communication"]


def _even_ranks(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    found = connection.execute("SELECT count(DISTINCT rank) FROM trace").fetchone()
    if not found or found[0] < 2:
        raise QueryError(
            f"{change.text!r}: the trace has only one rank", hint="open the folder of all ranks"
        )
    connection.execute(
        f"UPDATE {TABLE} AS e SET {scaled('r.ratio')} FROM ("
        "SELECT rank, phase, op, median(ns) OVER (PARTITION BY phase, op) / ns AS ratio FROM ("
        f"SELECT rank, coalesce(phase, '') AS phase, coalesce(op, '') AS op, sum({own_ns()}) AS ns "
        f"FROM {TABLE} WHERE part = 'work' AND work_kind = 'compute' GROUP BY ALL) WHERE ns > 0) "
        "AS r WHERE e.rank = r.rank AND coalesce(e.phase, '') = r.phase "
        "AND coalesce(e.op, '') = r.op AND e.part = 'work' AND e.work_kind = 'compute'"
    )
    return ["each rank computes for the median time of all ranks, by phase and op"]


Apply = Callable[[duckdb.DuckDBPyConnection, Change], list[str]]

CHANGES: Mapping[str | None, Apply] = {
    None: _change_work,
    "host": _change_host,
    "python": _change_python,
    "launches": _change_launches,
    "graph": _capture_steps,
    "sync": _remove_waits,
    "loading": _change_loading,
    "pauses": _change_pauses,
    "bandwidth": _change_links,
    "latency": _change_links,
    "overlap": _hide_communication,
    "ranks": _even_ranks,
}
"""Functions that apply a change to the edges and return assumptions, by keyword."""
