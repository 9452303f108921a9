"""Edges of a dependency graph under a change: one table, updated by SQL for each change.

Every edge has three factors: for Python or transfer latency, for data loading, and for the rest.
Changes to the same work multiply. A change to a range scales only the part of an edge inside the
range; `share` is the remaining share of the edge. Added work, such as recomputation, has its own
edges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
from msgspec.structs import replace

from tracekit.database.connections import SESSION
from tracekit.errors import QueryError, UsageError
from tracekit.prediction.changes import COLUMNS, REMOVE, WORKERS, Change
from tracekit.sql_text import quote

# Columns of an unchanged edge: factors, shares, and the time that contention adds.
_UNCHANGED = (
    "1.0::DOUBLE AS factor, 1.0::DOUBLE AS other_factor, 1.0::DOUBLE AS loading_factor, "
    "1.0::DOUBLE AS share, 0::BIGINT AS ranged_ns, 1.0::DOUBLE AS copies, 0::BIGINT AS contended_ns"
)

# `instant` numbers the times that a replay reports: 0 is the start of work, followed by the end of
# each step of each trace, and the start of each trace's first step. A row of added_work has an end
# node, the span that it copies (none for a batch of a data loader worker, which has a duration),
# and a span on its thread or stream. A row of entered_thread is where work is inserted into a
# thread: the next span, the recorded time, and the first and last inserted node.
_CREATE = f"""
CREATE OR REPLACE TABLE {SESSION}.main.changed_edge AS
WITH step AS (
    SELECT trace_id, step, row_number() OVER (ORDER BY trace_id, step NULLS FIRST) AS instant
    FROM (SELECT DISTINCT trace_id, step FROM graph_span WHERE kind = 'work')
),
begun AS (
    SELECT node, (SELECT count(*) FROM step) + dense_rank() OVER (ORDER BY trace_id) AS instant
    FROM step_bound
    SEMI JOIN graph_edge ON node = target_node
    SEMI JOIN step_ranges USING (trace_id)
    WHERE bound = 0
)
SELECT
    e.* EXCLUDE (quick_ns, slow_ns, loading_ns, is_binding, rest_ns),
    least(e.loading_ns, w.usual_ns) AS loading_ns,
    w.* EXCLUDE (edge_id), f.* EXCLUDE (edge_id, span_id), {_UNCHANGED},
    (n.node IS NOT NULL)::BIGINT AS is_end,
    if(
        f.part = 'host',
        greatest(e.weight_ns - e.loading_ns - f.op_ns, 0)
        / greatest(e.weight_ns - e.loading_ns, 1) * greatest(w.usual_ns - e.loading_ns, 0),
        0
    )::BIGINT AS other_ns,
    coalesce(b.instant, m.instant * (e.target_node % 2)) AS instant,
    if(b.instant IS NULL, m.step, NULL) AS instant_step
FROM graph_edge AS e
INNER JOIN {{weights}} AS w USING (edge_id)
INNER JOIN edge_fact AS f USING (edge_id)
LEFT JOIN graph_end AS n ON e.target_node = n.node
LEFT JOIN graph_span AS s
    ON e.target_node // 2 = s.span_id AND e.target_node > 0 AND s.kind = 'work'
LEFT JOIN step AS m ON s.trace_id = m.trace_id AND s.step IS NOT DISTINCT FROM m.step
LEFT JOIN begun AS b ON e.target_node = b.node
ORDER BY e.edge_id;
DROP TABLE IF EXISTS changed_ranged;
CREATE OR REPLACE TEMP TABLE added_work
(end_node BIGINT, span_id BIGINT, near_id BIGINT, root VARCHAR, worker BIGINT, ns BIGINT);
CREATE OR REPLACE TEMP TABLE entered_thread
(near_id BIGINT, recorded_ns BIGINT, first_node BIGINT, last_node BIGINT)
"""

VARIANTS = (
    ("usual", True),
    ("quick", True),
    ("slow", True),
    ("usual", False),
    ("quick", False),
)
"""Variants of a replay: latency percentile, and whether unexplained time remains. The first is the
prediction, the others determine its interval."""

WEIGHTS = ("quick", "usual", "slow")
"""Percentiles of latencies and gaps, which name columns of graph_weight (``quick_ns``, …)."""

OWN_NS = "(((usual_ns - loading_ns - other_ns) * factor + other_ns * other_factor) * share)"
"""Changed weight of an edge without data loading, ns."""


def left_ns(weight: str) -> str:
    own_ns = OWN_NS.replace("usual_ns", f"{weight}_ns")
    return f"round({own_ns} + loading_ns * loading_factor * share)::BIGINT"


def _weight(weight: str, is_carried: bool) -> str:
    # The model does not explain `*_rest_ns`. For work, it is part of the duration and scaled.
    rest = f"if(part = 'work', round({weight}_rest_ns * factor * share)::BIGINT, {weight}_rest_ns)"
    remaining = f"{left_ns(weight)} + contended_ns"
    return f"{remaining} + {rest}" if is_carried else remaining


EDGES = (
    f"SELECT edge_id, source_node, target_node, {_weight(*VARIANTS[0])} AS weight_ns, target_ns, "
    "is_end FROM changed_edge ORDER BY edge_id"
)
"""SQL for the columns of edges with which a replay computes the times of all nodes."""

MOMENTS = (
    "SELECT source_node, target_node, target_ns, instant, "
    + ", ".join(f"{_weight(*one)} AS weight_{i}_ns" for i, one in enumerate(VARIANTS))
    + " FROM changed_edge"
)
"""SQL for the columns of edges with the weights of all :data:`VARIANTS`, in table order."""


def every_weight(assignment: str) -> str:
    """Repeat an SQL assignment for each percentile, which replaces ``*``."""
    return ", ".join(assignment.replace("*", weight) for weight in WEIGHTS)


def scaled(factor: float | str) -> str:
    return f"factor = factor * {factor}, other_factor = other_factor * {factor}"


def where_of(change: Change, *parts: str) -> str:
    chosen = [f"{column}::VARCHAR GLOB {quote(glob)}" for column, glob in change.terms]
    return " AND ".join([*parts, *chosen]) or "TRUE"


Ask = Callable[[str], Sequence[Sequence[Any]]]


class NothingChosenError(QueryError):
    """No edge matches a change."""


class Edges:
    """Table ``changed_edge`` of a session: the edges of a run under changes.

    `weights` is the relation with edge weights of the profiled or the unprofiled run. `further` has
    query functions for additional runs.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, weights: str, further: Sequence[Ask] = ()
    ) -> None:
        self.connection = connection
        self.every_run = (self.run, *further)
        connection.execute(_CREATE.format(weights=weights))

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement).fetchall()

    def count(self, where: str) -> int:
        return int(self.run(f"SELECT count(*) FROM changed_edge WHERE {where}")[0][0])

    def create(self, name: str, statement: str) -> None:
        self.run(f"CREATE OR REPLACE TEMP TABLE {name} AS {statement}")

    def update(self, assignment: str, where: str, source: str = "") -> None:
        """Update columns of edges, named `e`, from rows of a source."""
        source = source and f"FROM {source}"
        self.run(f"UPDATE changed_edge AS e SET {assignment} {source} WHERE {where}")

    def add(self, rows: str) -> None:
        """Add edges, from rows of nodes, times, kind, part, and weight."""
        self.run(
            "INSERT INTO changed_edge BY NAME SELECT (SELECT max(edge_id) FROM changed_edge) "
            "+ row_number() OVER () AS edge_id, 'assumed' AS known_by, 0 AS is_end, "
            f"0 AS loading_ns, 0 AS other_ns, {_UNCHANGED}, 0 AS quick_rest_ns, "
            "0 AS usual_rest_ns, 0 AS slow_rest_ns, e.* EXCLUDE (ns), e.ns AS quick_ns, "
            f"e.ns AS usual_ns, e.ns AS slow_ns FROM ({rows}) AS e"
        )

    def need(self, where: str, change: Change, what: str, hint: str | None = None) -> None:
        """Raise NothingChosenError if no edge matches, with the available values as a hint."""
        if self.count(where):
            return
        if change.terms:
            column = change.terms[0][0]
            result = self.run(
                f"SELECT {column}::VARCHAR FROM changed_edge WHERE part = 'work' "
                f"AND {column} IS NOT NULL GROUP BY 1 ORDER BY sum(usual_ns) DESC, 1 LIMIT 6"
            )
            name = next(name for name, other in COLUMNS.items() if other == column)
            hint = f"{name} in this trace: {', '.join(value for (value,) in result) or 'none'}"
        raise NothingChosenError(f"{change.text!r}: {what} in this trace", hint=hint)

    def remove_work(self, where: str) -> None:
        """Remove work, calls that launched only this work, and waits for both."""
        self.create(
            "changed_gone", f"SELECT target_node // 2 AS span_id FROM changed_edge WHERE {where}"
        )
        self.update(
            "share = 0", f"part IN ('work', 'latency', 'gap') AND target_node // 2 IN {_GONE}"
        )
        # Ranks do not wait for a removed collective.
        self.run(
            f"DELETE FROM changed_edge WHERE kind IN ('meeting', 'posted_wait') "
            f"AND source_node // 2 IN {_GONE} OR kind = 'transfer' AND target_node // 2 IN {_GONE}"
        )
        self.remove_calls(
            "SELECT source_node // 2 AS span_id FROM changed_edge WHERE kind = 'launch' "
            f"GROUP BY 1 HAVING bool_and(target_node // 2 IN {_GONE})"
        )

    def remove_calls(self, spans: str) -> None:
        """Remove calls and their waits, and store their spans in ``changed_gone``."""
        self.create("changed_gone", spans)
        self.update("share = 0", f"part = 'call' AND target_node // 2 IN {_GONE}")
        self.run(f"DELETE FROM changed_edge WHERE part = 'wait' AND target_node // 2 IN {_GONE}")

    def change_spans(self, change: Change, by: str, rest: str, glob: str = "") -> None:
        """Change thread time inside the spans of ``changed_span``.

        `by` is the name of the spans in messages. For ops, `glob` is the pattern of their name.
        """
        self.run(
            "CREATE TEMP TABLE IF NOT EXISTS changed_ranged AS FROM changed_span LIMIT 0; "
            "INSERT INTO changed_ranged FROM changed_span"
        )
        # Host time inside these spans, and calls and CPU ops inside them.
        self.create(
            "changed_inside",
            f"""
            WITH piece AS MATERIALIZED (
                SELECT (e.trace_id, s.pid, s.tid) AS part, e.edge_id AS id,
                    e.source_ns AS start_ns, e.target_ns AS end_ns, e.ranged_ns
                FROM (FROM changed_edge WHERE {rest}) AS e
                INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id
                WHERE e.part IN ('host', 'call', 'work') AND s.tid IS NOT NULL
                AND e.source_ns < e.target_ns
            )
            SELECT o.id AS edge_id, o.overlap_ns,
                greatest(o.overlap_ns + p.ranged_ns - a.overlap_ns, 0) AS again_ns,
                o.overlap_ns * 2 > p.end_ns - p.start_ns AS is_most
            FROM interval_overlap('piece', 'changed_span') AS o
            INNER JOIN interval_overlap('piece', 'changed_ranged') AS a USING (id)
            INNER JOIN piece AS p USING (id)
            WHERE o.overlap_ns > 0
            """,
        )
        if not self.run("FROM changed_inside LIMIT 1"):
            raise QueryError(f"{change.text!r}: no recorded work is inside such a {by}")
        # Weights exclude waits. The factor multiplies the factors of earlier changes to ranges.
        self.update(
            "ranged_ns = e.ranged_ns + i.overlap_ns - i.again_ns, "
            f"share = e.share - {1 - change.factor!r} * (least(i.overlap_ns / e.weight_ns, 1) "
            "- coalesce((1 - e.share) * i.again_ns / nullif(e.ranged_ns, 0), 0))",
            "e.edge_id = i.edge_id AND e.part = 'host' AND e.weight_ns > 0",
            "changed_inside AS i",
        )
        inside = "edge_id IN (SELECT edge_id FROM changed_inside WHERE is_most)"
        # On a CPU, the op itself is the work.
        chosen = "part = 'work' AND device = 'cpu'"
        if change.action == REMOVE:
            self.remove_calls(
                "SELECT target_node // 2 AS span_id FROM changed_edge "
                f"WHERE part = 'call' AND {inside}"
            )
            self.update(
                "share = 0",
                "part IN ('work', 'latency', 'gap') AND target_node // 2 IN ("
                "SELECT target_node // 2 FROM changed_edge WHERE kind = 'launch' "
                f"AND source_node // 2 IN {_GONE})",
            )
            if by == "op":
                # Work queued before the window has no launch; its op comes from the event that it
                # repeats.
                self.remove_work(
                    f"part = 'work' AND {rest} AND op GLOB {quote(glob)} AND device <> 'cpu' AND "
                    "target_node NOT IN (SELECT target_node + 1 FROM changed_edge "
                    "WHERE kind = 'launch')"
                )
        else:
            chosen = f"({chosen} OR part = 'call')"
        self.update(scaled(change.factor), f"{chosen} AND {inside}")


_GONE = "(SELECT span_id FROM changed_gone)"


def _change_work(edges: Edges, change: Change) -> list[str]:
    columns = {column for column, _ in change.terms}
    if columns & {"range", "call"} or (change.action == REMOVE and "op" in columns):
        return _change_inside(edges, change)
    where = where_of(change, "part = 'work'")
    edges.need(where, change, "no matching work")
    if change.action == REMOVE:
        edges.remove_work(where)
        return ["the CPU time of the ops remains, without the launch"]
    edges.update(scaled(change.factor), where)
    return [] if change.factor == 1 else ["other GPU work is unchanged"]


_INSIDE = {
    "op": "is_op(e.category)",
    "range": "(is_annotation(e.category) OR is_python_call(e.category) "
    "OR regexp_matches(e.name, '^(Torch-Compiled Region|CompiledFunction)'))",
    "call": "is_launch_call(e.category)",
}
"""Host events that are selected by name, with everything inside them."""

HOST_SPAN = """(e.trace_id, e.pid, e.tid) AS part, e.ts_ns + c.shift_ns AS start_ns,
    e.ts_ns + e.dur_ns + c.shift_ns AS end_ns"""
"""Thread and time of an event `e` on the clock `c` of the graph."""


def _change_inside(edges: Edges, change: Change) -> list[str]:
    """Change thread time inside ops or ranges; removing them also removes their launches."""
    (by, glob) = next(term for term in change.terms if term[0] in _INSIDE)
    others = tuple(term for term in change.terms if term != (by, glob))
    if any(column in _INSIDE for column, _ in others):
        raise UsageError(f"{change.text!r}: select only one op, range, or call")
    edges.create(
        "changed_span",
        f"SELECT {HOST_SPAN} FROM event AS e INNER JOIN graph_clock AS c USING (trace_id) "
        f"WHERE {_INSIDE[by]} AND e.dur_ns > 0 AND e.name GLOB {quote(glob)}",
    )
    if not edges.run("FROM changed_span LIMIT 1"):
        raise QueryError(f"{change.text!r}: no such {by} in this trace")
    edges.change_spans(change, by, where_of(replace(change, terms=others)), glob)
    if change.action != REMOVE:
        return [f"GPU work that the {by} launches is unchanged; only its time on the CPU is scaled"]
    return [f"nothing uses the result of the removed {by}"]


NAMED_NS = 100_000
"""Minimum length of a Python call or range without launches that counts as work of the program."""

# Per edge, the share of host time outside ops in which nothing is launched: 1 if it is long, else
# the part inside calls or ranges that launch nothing.
_PAUSES = f"""
WITH host AS MATERIALIZED (
    SELECT (e.trace_id, s.pid, s.tid) AS part, e.edge_id AS id, e.other_ns,
        e.source_ns AS start_ns, e.target_ns AS end_ns
    FROM (FROM changed_edge WHERE {{where}} AND other_ns > {NAMED_NS}) AS e
    INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id
    WHERE s.tid IS NOT NULL
),
called AS (
    SELECT {HOST_SPAN}
    FROM event AS e
    INNER JOIN graph_clock AS c USING (trace_id)
    WHERE e.dur_ns > {NAMED_NS} AND (is_annotation(e.category) OR is_python_call(e.category))
    AND NOT starts_with(e.name, 'torch/') AND NOT contains(e.name, '/torch/')
),
launching AS (
    SELECT (l.trace_id, l.pid, l.tid) AS part, l.ts_ns + c.shift_ns AS ts_ns
    FROM launch AS l
    INNER JOIN graph_clock AS c USING (trace_id)
),
idle AS (
    SELECT c.part, c.start_ns, c.end_ns
    FROM called AS c
    ASOF LEFT JOIN launching AS l ON c.part = l.part AND c.start_ns <= l.ts_ns
    WHERE l.ts_ns IS NULL OR l.ts_ns >= c.end_ns
)
SELECT h.id AS edge_id,
    if(h.other_ns >= min_outside_ops_ns(), h.other_ns, least(o.overlap_ns, h.other_ns)) AS ns,
    ns / h.other_ns AS share
FROM host AS h
INNER JOIN interval_overlap('host', 'idle') AS o USING (id)
WHERE ns > 0
"""


def _change_host(edges: Edges, change: Change) -> list[str]:
    where = where_of(change, "part = 'host'")
    edges.need(where, change, "no matching host time")
    edges.create("changed_pause", _PAUSES.format(where=where))
    edges.update(scaled(change.factor), where_of(change, "part IN ('host', 'call')"))
    other_factor = "p.share"
    if change.factor:
        other_factor = f"e.other_factor * (1 + ({1 / change.factor!r} - 1) * p.share)"
    edges.update(f"other_factor = {other_factor}", "e.edge_id = p.edge_id", "changed_pause AS p")
    assumptions = []
    if edges.run("FROM changed_pause LIMIT 1"):
        assumptions.append(
            "host time of 1 ms or more outside ops, and Python calls that launch nothing, are "
            "unchanged"
        )
    if edges.count("device = 'cpu'"):
        assumptions.append("on a CPU, ops are compute and not host time")
    return assumptions


def _change_pauses(edges: Edges, change: Change) -> list[str]:
    """Change host stalls that recur in steps, on all host threads."""
    edges.create(
        "changed_span",
        "SELECT (p.trace_id, s.pid, s.tid) AS part, p.start_ns + c.shift_ns AS start_ns, "
        "p.end_ns + c.shift_ns AS end_ns FROM host_pauses AS p "
        "INNER JOIN graph_clock AS c USING (trace_id) "
        "INNER JOIN (SELECT DISTINCT trace_id, pid, tid FROM graph_span WHERE tid IS NOT NULL) "
        "AS s USING (trace_id) WHERE p.is_repeated",
    )
    if not edges.run("FROM changed_span LIMIT 1"):
        raise QueryError(
            f"{change.text!r}: no stall of 2 ms without a host event recurs at one place "
            "in more than half of the steps"
        )
    edges.change_spans(change, "pause", where_of(change))
    return ["no later work needs what the program did or waited for during the stalls"]


def _change_python(edges: Edges, change: Change) -> list[str]:
    where = where_of(change, "part = 'host'")
    edges.need(where, change, "no matching host time")
    edges.update(f"other_factor = other_factor * {change.factor!r}", where)
    return ["time outside ops is Python"]


def _change_launches(edges: Edges, change: Change) -> list[str]:
    launching = "(SELECT source_node // 2 FROM changed_edge WHERE kind = 'launch')"
    where = where_of(change, f"part = 'call' AND target_node // 2 IN {launching}")
    edges.need(where, change, "no matching launch")
    edges.update(scaled(change.factor), where)
    return ["ops and Python around launches remain; a captured graph has neither"]


_IN_GRAPH_NS = (350, 420, 600)
"""Gap between two kernels in a CUDA graph: percentiles 10, 50, and 90.

Measured on 1,785 kernels of a captured step on an H200.
"""

_GRAPH_LAUNCH_NS = 15_000

_GAPS_IN_GRAPHS = """
SELECT quantile_disc(e.target_ns - e.source_ns, [0.1, 0.5, 0.9])
FROM changed_edge AS e
INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id
INNER JOIN launch AS l ON s.trace_id = l.trace_id AND s.launch_id = l.launch_id
WHERE e.kind = 'stream' AND contains(l.name, 'GraphLaunch') AND e.target_ns - e.source_ns < 3000
HAVING count(*) >= 100
"""

_STARTS_OF_STEPS = f"""
SELECT m.trace_id, m.span_id * 2 AS source_node,
    arg_min(w.span_id, (w.start_ns, w.span_id)) * 2 AS target_node, 'launch' AS kind,
    'latency' AS part, m.start_ns AS source_ns, min(w.start_ns) AS target_ns,
    {_GRAPH_LAUNCH_NS} AS ns
FROM graph_span AS m
INNER JOIN graph_span AS w USING (trace_id, step)
WHERE m.name = 'step start' AND m.kind = 'mark' AND w.kind = 'work' AND w.device <> 'cpu'
AND w.start_ns >= m.start_ns
GROUP BY m.trace_id, m.span_id, m.start_ns, w.step
"""


def _capture_steps(edges: Edges, change: Change) -> list[str]:
    if not edges.run("FROM launch WHERE regexp_matches(name, '^(cuda|cu[A-Z]|hip)') LIMIT 1"):
        raise QueryError(f"{change.text!r}: no work in this trace was launched by CUDA or HIP")
    if not edges.run(f"{_STARTS_OF_STEPS} LIMIT 1"):
        raise QueryError(f"{change.text!r}: no marked step in this trace has GPU work")
    [(waits,)] = edges.run(
        "SELECT count(*) / nullif(count(DISTINCT (trace_id, step)), 0) FROM graph_breaks"
    )
    result = edges.run(_GAPS_IN_GRAPHS)
    quick_ns, usual_ns, slow_ns = result[0][0] if result else _IN_GRAPH_NS
    assumed = _change_host(edges, replace(change, keyword="host", action=REMOVE, factor=0.0))
    no_rest = every_weight("*_rest_ns = 0")
    edges.update(
        f"quick_ns = {quick_ns}, usual_ns = {usual_ns}, slow_ns = {slow_ns}, {no_rest}",
        "kind = 'stream'",
    )
    edges.update(f"share = 0, {no_rest}", "part = 'latency'")
    edges.add(_STARTS_OF_STEPS)
    regions = "each step is one CUDA graph"
    if waits:
        edges.update(
            f"{every_weight(f'*_ns = {_GRAPH_LAUNCH_NS}')}, other_ns = 0, factor = 1, share = 1",
            "part = 'host' AND source_node IN (SELECT target_node FROM changed_edge "
            "WHERE kind IN ('copy', 'sync'))",
        )
        regions = f"CUDA graphs cover the work between GPU syncs ({waits:.0f} per step)"
    assumed += [
        f"{regions}, with static shapes",
        f"kernels in a CUDA graph are {usual_ns / 1e3:.2f} µs apart",
    ]
    if edges.count("part = 'work' AND phase = 'optimizer'"):
        # Capturable Adam is slower: in one program, it took 4.4 ms instead of 1.2 ms, with 284 more
        # kernels.
        edges.update("slow_ns = slow_ns * 1.25", "part = 'work' AND device <> 'cpu'")
        assumed.append(
            "a capturable optimizer adds small kernels (the lower bound of the gain includes 25 % "
            "more GPU work)"
        )
    return assumed


def _remove_waits(edges: Edges, change: Change) -> list[str]:
    where = where_of(change, "kind IN ('copy', 'sync', 'implicit_sync')")
    edges.need(where, change, "no host wait that is followed by GPU work")
    edges.run(f"DELETE FROM changed_edge WHERE {where}")
    return ["the host does not need the result that it waited for"]


# Edges inside data loaders, including CPU ops, with the start of the loader's call.
_LOADED = f"""
WITH loader AS (
    SELECT {HOST_SPAN}
    FROM host_waits AS e
    INNER JOIN graph_clock AS c USING (trace_id)
    WHERE e.kind = 'data_loading'
)
SELECT e.edge_id, e.trace_id, e.target_node, e.source_ns, e.target_ns,
    if(e.part = 'work', {OWN_NS}, e.loading_ns * e.loading_factor * e.share) AS ns,
    l.start_ns AS called_ns
FROM (FROM changed_edge WHERE {{chosen}}) AS e
INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id
ASOF INNER JOIN interval_union('loader') AS l
    ON (e.trace_id, s.pid, s.tid) = l.part AND e.target_ns > l.start_ns
WHERE s.tid IS NOT NULL AND (
    e.loading_ns > 0
    OR e.part = 'work' AND e.source_ns >= l.start_ns AND e.target_ns <= l.end_ns
)
"""


def _change_loading(edges: Edges, change: Change) -> list[str]:
    where = where_of(change, "loading_ns > 0")
    hint = "if the loop itself loads data, try 'pauses remove'"
    edges.need(where, change, "no data loading", hint)
    if change.action == WORKERS and edges.count("kind = 'batch'"):
        raise QueryError(
            f"{change.text!r}: workers already load the data, and their time per batch is "
            "not recorded"
        )
    edges.create("changed_loaded", _LOADED.format(chosen=where_of(change)))
    factor, assumptions = change.factor, []
    if change.action == WORKERS:
        factor = 0.0
        _add_workers(edges, change.count)
        assumptions = [
            (
                f"each of {change.count} workers loads a batch in the recorded time and stays at "
                "most two ahead"
            ),
            "handing over a batch takes no time (the interval allows 1 ms)",
            "workers start before the window and do not slow other work",
        ]
    if change.action == REMOVE:
        edges.run(f"DELETE FROM changed_edge WHERE kind = 'batch' AND {where}")
    edges.update(
        scaled(factor), "part = 'work' AND edge_id IN (SELECT edge_id FROM changed_loaded)"
    )
    edges.update(f"loading_factor = loading_factor * {factor!r}", where)
    return assumptions


# torch passes the memory descriptor of a batch through a socket, which took 0.1 to 4 ms (median of
# six batches in a public trace: 1.3 ms).
_HANDOVER_NS = 1_000_000

_BATCHES = """
SELECT trace_id, sum(ns)::BIGINT AS ns, arg_max(target_node, target_ns) AS target_node,
    min(source_ns) AS source_ns, max(target_ns) AS target_ns,
    (SELECT least(min(source_node), 0) FROM changed_edge)
    - row_number() OVER (ORDER BY trace_id, called_ns) AS node,
    row_number() OVER (PARTITION BY trace_id ORDER BY called_ns) AS number
FROM changed_loaded
GROUP BY trace_id, called_ns
"""


def _add_workers(edges: Edges, count: int) -> None:
    """Move data loading to workers, each at most two batches ahead (prefetch_factor=2)."""
    edges.create("changed_batch", _BATCHES)
    for source, target, ns, behind in (
        # Workers start staggered, and finish batches in that order.
        ("0", "l.node", f"l.ns * least(l.number - 1, {count}) // {count}", 0),
        ("b.node", "l.node", "l.ns", count),
        ("b.target_node", "l.node", "l.ns", 2 * count),
        ("l.node", "l.target_node", "0", 0),
    ):
        edges.add(
            f"SELECT l.trace_id, {source} AS source_node, {target} AS target_node, "
            f"'loading' AS kind, 'wait' AS part, l.source_ns, l.target_ns, {ns} AS ns "
            "FROM changed_batch AS l INNER JOIN changed_batch AS b "
            f"ON l.trace_id = b.trace_id AND l.number - {behind} = b.number"
        )
    edges.run(
        "INSERT INTO added_work BY NAME SELECT node AS end_node, target_node // 2 AS near_id, "
        f"(number - 1) % {count} + 1 AS worker, ns FROM changed_batch"
    )
    edges.update(
        f"slow_ns = slow_ns + {_HANDOVER_NS}",
        "part = 'host' AND target_node IN (SELECT target_node FROM changed_batch)",
    )


Apply = Callable[[Edges, Change], list[str]]

CHANGES: Mapping[str | None, Apply] = {
    None: _change_work,
    "host": _change_host,
    "python": _change_python,
    "launches": _change_launches,
    "graph": _capture_steps,
    "sync": _remove_waits,
    "loading": _change_loading,
    "pauses": _change_pauses,
}
