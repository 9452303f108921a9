"""The edges of a dependency graph under a change: one table, changed by SQL, change by change.

Every edge has a factor for what its work takes, and what of the host's time on it is gone. What is
replayed at the end is what these leave of its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import duckdb

from tracekit.analysis.session_tables import DATABASE
from tracekit.errors import QueryError, UsageError
from tracekit.prediction.changes import COLUMNS, REMOVE, WORKERS, Change
from tracekit.sql_text import quote

TABLE = f"{DATABASE}.main.changed_edge"
"""The table of the edges of a prediction."""

WEIGHTS = ("quick", "usual", "slow")
"""By which percentile of what is usual latencies and gaps are weighed: columns of graph_weight."""

# A node has a moment that is looked at where work begins, 0, or ends, one for each step of a trace.
_CREATE = f"""
CREATE OR REPLACE TABLE {TABLE} AS
WITH step AS (
    SELECT trace_id, step, row_number() OVER (ORDER BY trace_id, step NULLS FIRST) AS moment
    FROM (SELECT DISTINCT trace_id, step FROM graph_span WHERE kind = 'work')
)
SELECT
    e.edge_id, e.trace_id, e.source_node, e.target_node, e.kind, e.known_by, e.source_ns,
    e.target_ns, e.loading_ns, w.* EXCLUDE (edge_id), f.* EXCLUDE (edge_id, span_id),
    (n.node IS NOT NULL)::BIGINT AS is_end,
    1.0::DOUBLE AS factor,
    0::BIGINT AS less_ns,
    m.moment * (e.target_node % 2) AS moment,
    m.step AS moment_step
FROM graph_edge AS e
INNER JOIN graph_weight AS w USING (edge_id)
INNER JOIN edge_fact AS f USING (edge_id)
LEFT JOIN graph_end AS n ON e.target_node = n.node
LEFT JOIN graph_span AS s
    ON e.target_node // 2 = s.span_id AND e.target_node > 0 AND s.kind = 'work'
LEFT JOIN step AS m ON s.trace_id = m.trace_id AND s.step IS NOT DISTINCT FROM m.step
ORDER BY e.edge_id
"""

VARIANTS = (
    ("usual", True),
    ("quick", True),
    ("slow", True),
    ("usual", False),
    ("quick", False),
)
"""Which latencies and gaps, and whether what the graph does not explain stays: the first is the
prediction, the others are for its interval."""


def _weight(weight: str, is_carried: bool) -> str:
    # What is no work has nothing of the rest scaled: it is what the graph does not explain.
    rest = f"if(part = 'work', round({weight}_rest_ns * factor)::BIGINT, {weight}_rest_ns)"
    kept = f"greatest(round({weight}_ns * factor)::BIGINT - less_ns, least({weight}_ns, 0))"
    return f"{kept} + {rest}" if is_carried else kept


EDGES = (
    f"SELECT edge_id, source_node, target_node, {_weight(*VARIANTS[0])} AS weight_ns, target_ns, "
    f"is_end FROM {TABLE} ORDER BY edge_id"
)
"""What a replay takes of them, for the times of all nodes."""

MOMENTS = (
    "SELECT source_node, target_node, target_ns, moment, "
    + ", ".join(f"{_weight(*one)} AS weight_{i}_ns" for i, one in enumerate(VARIANTS))
    + f" FROM {TABLE}"
)
"""And for the moments, with the weights of all :data:`VARIANTS`; in the table's order, the same."""


def create_edges(connection: duckdb.DuckDBPyConnection) -> None:
    """Lay out the edges of the recorded run."""
    connection.execute(_CREATE)


def where_of(change: Change, *parts: str) -> str:
    """Return the condition of edges that all terms of a change choose, and these besides."""
    chosen = [f"{column}::VARCHAR GLOB {quote(glob)}" for column, glob in change.terms]
    return " AND ".join([*parts, *chosen])


def _count(connection: duckdb.DuckDBPyConnection, where: str) -> int:
    found = connection.execute(f"SELECT count(*) FROM {TABLE} WHERE {where}").fetchone()
    return int(found[0]) if found else 0


class NothingChosenError(QueryError):
    """No edge is of what a change chooses."""


def need(connection: duckdb.DuckDBPyConnection, where: str, change: Change, what: str) -> None:
    """Refuse a change, with what there is in its place, where no edge is chosen.

    Raises:
        NothingChosenError: no edge is.
    """
    if _count(connection, where):
        return
    hint = None
    if change.terms:
        column = change.terms[0][0]
        found = connection.execute(
            f"SELECT {column}::VARCHAR FROM {TABLE} WHERE part = 'work' AND {column} IS NOT NULL "
            "GROUP BY 1 ORDER BY sum(usual_ns) DESC, 1 LIMIT 6"
        ).fetchall()
        name = next(name for name, other in COLUMNS.items() if other == column)
        hint = f"{name} here: {', '.join(value for (value,) in found) or 'none'}"
    raise NothingChosenError(f"{change.text!r}: there is {what} in this trace", hint=hint)


def update(connection: duckdb.DuckDBPyConnection, assignment: str, where: str) -> None:
    """Set columns of edges."""
    connection.execute(f"UPDATE {TABLE} SET {assignment} WHERE {where}")


def _change_work(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    columns = [column for column, _ in change.terms]
    if {"range", "call"} & {*columns} or (change.action == REMOVE and "op" in columns):
        return _change_inside(connection, change)
    where = where_of(change, "part = 'work'")
    need(connection, where, change, "no such work")
    if change.action == REMOVE:
        remove_work(connection, where)
        return ["removed work leaves the time of its ops on the host, without the launch"]
    update(connection, f"factor = factor * {change.factor!r}", where)
    return [] if change.factor == 1 else ["other work takes as long as it did"]


def drop(connection: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Drop tables that a change has made of the edges, where they are."""
    for name in names:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}_{name}")


def remove_work(connection: duckdb.DuckDBPyConnection, where: str) -> None:
    """Take away work, the calls that launched nothing else, and what waits for either."""
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_gone AS "
        f"SELECT target_node // 2 AS span_id FROM {TABLE} WHERE {where}"
    )
    gone = f"(SELECT span_id FROM {TABLE}_gone)"
    update(connection, "factor = 0", f"part = 'work' AND target_node // 2 IN {gone}")
    update(connection, "factor = 0", f"part IN ('latency', 'gap') AND target_node // 2 IN {gone}")
    # Ranks do not meet for a collective that is gone, and nobody waits for it.
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
    update(connection, "factor = 0", f"part = 'call' AND target_node // 2 IN {gone}")
    connection.execute(f"DELETE FROM {TABLE} WHERE part = 'wait' AND target_node // 2 IN {gone}")


_INSIDE = {
    "op": "is_op(e.category)",
    "range": "(is_annotation(e.category) OR is_python_call(e.category))",
    "call": "is_launch_call(e.category)",
}
"""What events of a thread are chosen by a name, and change with all that they hold."""


def _change_inside(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    """Change what threads do inside of ops or ranges; what is removed takes its launches along."""
    (by, glob) = next(term for term in change.terms if term[0] in _INSIDE)
    others = [term for term in change.terms if term != (by, glob)]
    if any(column in _INSIDE for column, _ in others):
        raise UsageError(f"{change.text!r}: only one op, range or call can be chosen")
    rest = where_of(replace(change, terms=tuple(others)), "TRUE")
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_op AS "
        "SELECT (e.trace_id, e.pid, e.tid) AS part, e.ts_ns + c.shift_ns AS start_ns, "
        "e.ts_ns + e.dur_ns + c.shift_ns AS end_ns "
        "FROM event AS e INNER JOIN graph_clock AS c USING (trace_id) "
        f"WHERE {_INSIDE[by]} AND e.dur_ns > 0 AND e.name GLOB {quote(glob)}"
    )
    if not connection.execute(f"FROM {TABLE}_op LIMIT 1").fetchall():
        raise QueryError(f"{change.text!r}: there is no such {by} in this trace")
    # Time of the host inside of these, and calls and work of CPUs that lie in them.
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_part AS "
        "SELECT (e.trace_id, s.pid, s.tid) AS part, e.edge_id AS id, "
        f"e.source_ns AS start_ns, e.target_ns AS end_ns FROM (FROM {TABLE} WHERE {rest}) AS e "
        "INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id "
        "WHERE e.part IN ('host', 'call', 'work') AND s.tid IS NOT NULL "
        "AND e.source_ns < e.target_ns"
    )
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_inside AS SELECT o.id AS edge_id, o.overlap_ns, "
        "o.overlap_ns * 2 > p.end_ns - p.start_ns AS is_most "
        f"FROM interval_overlap('{TABLE}_part', '{TABLE}_op') AS o "
        f"INNER JOIN {TABLE}_part AS p USING (id) WHERE o.overlap_ns > 0"
    )
    if not connection.execute(f"FROM {TABLE}_inside LIMIT 1").fetchall():
        raise QueryError(f"{change.text!r}: nothing of this trace lies in such a {by}")
    # What a thread waited for is no part of its weight.
    connection.execute(
        f"UPDATE {TABLE} AS e SET less_ns = less_ns "
        f"+ round(least(i.overlap_ns, e.usual_ns) * {1 - change.factor!r})::BIGINT "
        f"FROM {TABLE}_inside AS i WHERE e.edge_id = i.edge_id AND e.part = 'host'"
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
        for part in ("part = 'work'", "part IN ('latency', 'gap')"):
            update(connection, "factor = 0", f"{part} AND target_node // 2 IN ({launched})")
    # On cpu the op is the work.
    scaled = "part = 'work' AND device = 'cpu'"
    if change.action != REMOVE:
        scaled = f"({scaled} OR part = 'call')"
    update(connection, f"factor = factor * {change.factor!r}", f"{scaled} AND {inside}")
    drop(connection, "op", "part", "inside", "gone")
    if change.action != REMOVE:
        return [f"what a {by} launched takes as long as it did, and what it runs on the host not"]
    return [f"what a removed {by} gave is not needed elsewhere"]


def _change_host(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    where = where_of(change, "part = 'host'")
    need(connection, where, change, "no such time of the host")
    update(
        connection,
        f"less_ns = less_ns + round((usual_ns - loading_ns) * {1 - change.factor!r})::BIGINT",
        where,
    )
    update(connection, f"factor = factor * {change.factor!r}", where_of(change, "part = 'call'"))
    if connection.execute(f"FROM {TABLE} WHERE device = 'cpu' LIMIT 1").fetchall():
        return ["on a CPU, ops are work, and not the host's own time"]
    return []


def _change_python(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    where = where_of(change, "part = 'host'")
    need(connection, where, change, "no such time of the host")
    update(
        connection,
        "less_ns = less_ns + round(greatest(usual_ns - loading_ns - op_ns, 0) "
        f"* {1 - change.factor!r})::BIGINT",
        where,
    )
    return ["what is in no op is Python"]


def _change_launches(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    launching = f"target_node // 2 IN (SELECT source_node // 2 FROM {TABLE} WHERE kind = 'launch')"
    where = where_of(change, "part = 'call'", launching)
    need(connection, where, change, "no such launch")
    update(connection, f"factor = factor * {change.factor!r}", where)
    return ["ops and Python around launches stay; a captured graph has none of them either"]


def _remove_waits(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    where = where_of(change, "kind IN ('copy', 'sync', 'implicit_sync')")
    need(connection, where, change, "no wait of the host that work comes after")
    connection.execute(f"DELETE FROM {TABLE} WHERE {where}")
    return ["nothing that the host does needs what it waited for"]


def _change_loading(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    where = where_of(change, "loading_ns > 0")
    need(connection, where, change, "no data loading")
    if change.action == WORKERS and _count(connection, "kind = 'batch'"):
        raise QueryError(
            f"{change.text!r}: workers load its data already, and what one takes is not recorded"
        )
    _find_loading(connection, change)
    if change.action == WORKERS:
        _add_workers(connection, change.count)
    if change.action == REMOVE:
        connection.execute(f"DELETE FROM {TABLE} WHERE kind = 'batch' AND {where}")
    kept = 0.0 if change.action == WORKERS else change.factor
    loaded = f"edge_id IN (SELECT edge_id FROM {TABLE}_loaded)"
    update(connection, f"factor = factor * {kept!r}", f"part = 'work' AND {loaded}")
    update(connection, f"less_ns = less_ns + round(loading_ns * {1 - kept!r})::BIGINT", where)
    drop(connection, "loaded")
    if change.action != WORKERS:
        return []
    return [
        f"each of {change.count} workers takes as long for a batch, and is at most two ahead",
        "workers had begun before the window, and take no time from what runs beside them",
    ]


def _find_loading(connection: duckdb.DuckDBPyConnection, change: Change) -> None:
    """Lay out the edges inside of data loaders, and which call of one it was: on cpu ops, too."""
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
        "if(e.part = 'work', e.usual_ns, e.loading_ns) AS ns, l.start_ns AS called_ns "
        f"FROM (FROM {TABLE} WHERE {where_of(change, 'TRUE')}) AS e "
        "INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id "
        f"ASOF INNER JOIN interval_union('{TABLE}_loader') AS l "
        "ON (e.trace_id, s.pid, s.tid) = l.part AND e.target_ns > l.start_ns "
        "WHERE s.tid IS NOT NULL AND (e.loading_ns > 0 OR e.part = 'work' "
        "AND e.source_ns >= l.start_ns AND e.target_ns <= l.end_ns)"
    )
    drop(connection, "loader")


def _add_workers(connection: duckdb.DuckDBPyConnection, count: int) -> None:
    """Let workers make what was loaded.

    Batch k is ready when its worker has made it, which begins when that one's last is ready, and is
    at most two batches ahead of what is taken.
    """
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_batch AS SELECT trace_id, sum(ns)::BIGINT AS ns, "
        "arg_max(target_node, target_ns) AS target_node, min(source_ns) AS source_ns, "
        "max(target_ns) AS target_ns, row_number() OVER (ORDER BY trace_id, called_ns) "
        f"- (SELECT least(min(source_node), 0) FROM {TABLE}) AS number_of_all, "
        "row_number() OVER (PARTITION BY trace_id ORDER BY called_ns) AS number "
        f"FROM {TABLE}_loaded GROUP BY trace_id, called_ns"
    )
    insert = (
        f"INSERT INTO {TABLE} BY NAME SELECT (SELECT max(edge_id) FROM {TABLE}) "
        "+ row_number() OVER () AS edge_id, l.trace_id, {source} AS source_node, "
        "{target} AS target_node, 'loading' AS kind, 'assumed' AS known_by, l.source_ns, "
        "l.target_ns, 0 AS loading_ns, 'wait' AS part, 1.0 AS factor, 0 AS less_ns, 0 AS is_end, "
        "{weight} AS quick_ns, {weight} AS usual_ns, {weight} AS slow_ns, 0 AS quick_rest_ns, "
        f"0 AS usual_rest_ns, 0 AS slow_rest_ns FROM {TABLE}_batch AS l {{join}}"
    )
    before = (
        f"INNER JOIN {TABLE}_batch AS b ON l.trace_id = b.trace_id AND l.number - {{n}} = b.number"
    )
    for source, target, weight, join in (
        # They take turns: of those that had begun before, one is ready after the other.
        ("0", "-l.number_of_all", f"l.ns * least(l.number - 1, {count}) // {count}", ""),
        ("-b.number_of_all", "-l.number_of_all", "l.ns", before.format(n=count)),
        ("b.target_node", "-l.number_of_all", "l.ns", before.format(n=2 * count)),
        ("-l.number_of_all", "l.target_node", "0", ""),
    ):
        connection.execute(insert.format(source=source, target=target, weight=weight, join=join))
    drop(connection, "batch")


def fit_transfers(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    """Lay out what of each transfer is latency, by the run's own sizes; return what that assumes.

    Raises:
        QueryError: no collective has a size, or its latency is asked for and cannot be told.
    """
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_transfer AS "
        "SELECT e.edge_id, c.class, c.group_size, c.message_bytes, e.usual_ns, "
        "c.name ILIKE '%\\_tree%' ESCAPE '\\' AS is_tree "
        f"FROM {TABLE} AS e INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id "
        "INNER JOIN collective_events AS c "
        "ON s.trace_id = c.trace_id AND s.event_id = c.event_id AND s.piece = c.piece "
        "WHERE e.part = 'work' AND c.is_transfer AND c.message_bytes > 0 AND e.usual_ns > 0"
    )
    connection.execute(
        f"CREATE OR REPLACE TABLE {TABLE}_fit AS "
        "WITH size AS (SELECT class, group_size, message_bytes, median(usual_ns) AS ns, "
        f"count(*) AS count FROM {TABLE}_transfer GROUP BY ALL) "
        "SELECT class, group_size, count(*) AS size_count, "
        "least(greatest(regr_intercept(ns, message_bytes), 0), min(ns)) AS latency_ns "
        "FROM size GROUP BY class, group_size "
        "HAVING count(*) > 1 AND max(message_bytes) >= 2 * min(message_bytes) "
        "AND regr_slope(ns, message_bytes) > 0"
    )
    unmatched = _count(connection, "kind = 'work' AND work_kind = 'comm' AND usual_ns > 0")
    found = connection.execute(
        f"SELECT count(*), count(f.latency_ns) FROM {TABLE}_transfer AS t "
        f"LEFT JOIN {TABLE}_fit AS f USING (class, group_size)"
    ).fetchone()
    count, fitted = found or (0, 0)
    if not count:
        raise QueryError(f"{change.text!r}: no collective tells the size of its message")
    if change.keyword in ("latency", "algorithm") and not fitted:
        raise QueryError(
            f"{change.text!r}: its latency cannot be told apart from its bandwidth",
            hint="it takes collectives of one kind with messages of several sizes",
        )
    assumptions = ["time of a collective is latency and bytes over bandwidth, by the run's sizes"]
    if fitted < count:
        assumptions.append(
            f"{count - fitted} of {count} collectives have one size, and are bandwidth alone"
        )
    if unmatched:
        assumptions.append("waiting for ranks that are not here counts as transfer")
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
    """Scale the latency of each transfer and the rest of it, and drop what was laid out of them.

    Args:
        connection: one for which :func:`fit_transfers` was called.
        change: whose terms choose of them.
        ratios: gives the rows of the table of transfers with the two ratios as last columns.
    """
    connection.execute(
        f"UPDATE {TABLE} AS e SET factor = e.factor "
        "* (r.latency_ns * r.of_latency + (r.usual_ns - r.latency_ns) * r.of_bytes) / r.usual_ns "
        "FROM (SELECT t.edge_id, t.usual_ns, t.of_latency, t.of_bytes, "
        "least(coalesce(f.latency_ns, 0), t.usual_ns) AS latency_ns FROM ("
        f"{ratios}) AS t(edge_id, class, group_size, message_bytes, usual_ns, is_tree, of_latency, "
        f"of_bytes) LEFT JOIN {TABLE}_fit AS f USING (class, group_size)) AS r "
        "WHERE e.edge_id = r.edge_id "
        f"AND e.edge_id IN (SELECT edge_id FROM {TABLE} WHERE {where_of(change, 'TRUE')})"
    )
    drop(connection, "transfer", "fit")


def _hide_communication(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    # What is gathered or exchanged the backward pass needs itself.
    comm = (
        f"SELECT target_node FROM {TABLE} WHERE part = 'work' AND work_kind = 'comm' "
        "AND class NOT IN ('comm_allgather', 'comm_alltoall', 'comm_p2p')"
    )
    # Compute of the backward pass and of all else but the optimizer needs no gradients.
    waits = (
        "kind IN ('event', 'stream', 'posted_wait') AND coalesce(work_kind <> 'comm', TRUE) "
        "AND coalesce(phase = 'backward', FALSE) AND source_node IN "
        f"({comm} AND phase = 'backward')"
    )
    need(connection, waits, change, "no compute that waits for communication of the backward")
    connection.execute(
        f"INSERT INTO {TABLE} BY NAME SELECT (SELECT max(edge_id) FROM {TABLE}) "
        "+ row_number() OVER () AS edge_id, w.trace_id, w.source_node, o.target_node, "
        "'event' AS kind, 'assumed' AS known_by, w.source_ns, o.target_ns, 0 AS loading_ns, "
        "'gap' AS part, 1.0 AS factor, 0 AS less_ns, 0 AS is_end, 0 AS quick_ns, 0 AS usual_ns, "
        "0 AS slow_ns, 0 AS quick_rest_ns, 0 AS usual_rest_ns, 0 AS slow_rest_ns "
        f"FROM (FROM {TABLE} WHERE {waits}) AS w ASOF INNER JOIN (FROM {TABLE} "
        "WHERE kind = 'launch' AND phase = 'optimizer') AS o "
        "ON w.trace_id = o.trace_id AND w.source_ns <= o.target_ns"
    )
    connection.execute(f"DELETE FROM {TABLE} WHERE {waits}")
    return ["the optimizer is the first to need what communication of the backward brings"]


def _even_ranks(connection: duckdb.DuckDBPyConnection, change: Change) -> list[str]:
    found = connection.execute("SELECT count(DISTINCT rank) FROM trace").fetchone()
    if not found or found[0] < 2:
        raise QueryError(f"{change.text!r}: there is one rank", hint="open the folder of all ranks")
    connection.execute(
        f"UPDATE {TABLE} AS e SET factor = e.factor * r.ratio FROM ("
        "SELECT rank, phase, median(ns) OVER (PARTITION BY phase) / ns AS ratio FROM ("
        f"SELECT rank, coalesce(phase, '') AS phase, sum(usual_ns) AS ns FROM {TABLE} "
        "WHERE part = 'work' AND work_kind = 'compute' GROUP BY ALL) WHERE ns > 0) AS r "
        "WHERE e.rank = r.rank AND coalesce(e.phase, '') = r.phase AND e.part = 'work' "
        "AND e.work_kind = 'compute'"
    )
    return ["compute of each rank and phase takes the median of the ranks"]


Apply = Callable[[duckdb.DuckDBPyConnection, Change], list[str]]

CHANGES: Mapping[str | None, Apply] = {
    None: _change_work,
    "host": _change_host,
    "python": _change_python,
    "launches": _change_launches,
    "sync": _remove_waits,
    "loading": _change_loading,
    "bandwidth": _change_links,
    "latency": _change_links,
    "overlap": _hide_communication,
    "ranks": _even_ranks,
}
"""By keyword what applies a change to the edges, and returns what that assumes."""
