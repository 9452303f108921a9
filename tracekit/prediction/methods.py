"""Training methods, such as checkpointing and fusion, as changes to graph edges.

All predicted times derive from recorded work. For example, recomputation repeats forward work, and
a fused kernel moves the same bytes as the kernels that it replaces.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.run import run_analysis
from tracekit.errors import QueryError, UsageError
from tracekit.prediction import edges as plain
from tracekit.prediction import links, scaling
from tracekit.prediction.changes import OFF, ON, REMOVE, SCALE, Change, parse_change
from tracekit.prediction.edges import HOST_SPAN, OWN_NS, Apply, Edges, scaled, where_of

# Ops that save no tensor, and ops that save their output. torch's non-reentrant checkpoint stops
# recomputing when the last tensor is saved, so before an op that saves its input.
_SAVES_NOTHING = (
    r"aten::(add_?|(_unsafe_)?view|_?reshape(_alias)?|linear|t|transpose|permute|as_strided|expand"
    r"|slice|select|(un)?squeeze|detach|alias|to|empty\w*|result_type|resolve_\w+)"
)
_SAVES_OUTPUT = (
    r"aten::(relu_?|tanh_?|sigmoid_?|exp_?|r?sqrt_?|native_dropout|\w*softmax|\w*norm"
    r"|\w*attention\w*)"
)

# A run is one forward pass of a selected outermost module and the backward pass that follows. The
# recomputed part becomes a chain before the backward pass, on the thread and the stream.
_AGAIN = f"""
WITH root AS (
    SELECT module, {{root}} AS root
    FROM (SELECT DISTINCT module FROM changed_edge WHERE module IS NOT NULL)
),
member AS (
    SELECT e.*, r.root, part IN ('host', 'call') AS is_host,
        coalesce(regexp_full_match(op, '{_SAVES_NOTHING}'), TRUE) AS saves_nothing,
        {OWN_NS} AS ns,
        lag(phase) OVER side = 'backward' AND phase = 'forward' AS is_next,
        op IS DISTINCT FROM lag(op) OVER side AS is_other
    FROM changed_edge AS e
    INNER JOIN root AS r USING (module)
    WHERE r.root IS NOT NULL AND phase IN ('forward', 'backward') AND {{others}} AND (
        part = 'call' OR kind IN ('host', 'stream')
        OR part = 'work' AND work_kind IS DISTINCT FROM 'comm'
    )
    WINDOW side AS (PARTITION BY e.trace_id, root, is_host ORDER BY target_ns, edge_id)
),
numbered AS (
    SELECT *,
        count(if(is_next, 1, NULL)) OVER side AS number,
        count(if(is_other, 1, NULL)) OVER side AS op_number
    FROM member
    WINDOW side AS (PARTITION BY trace_id, root, is_host ORDER BY target_ns, edge_id)
),
ending AS (
    SELECT trace_id, root, is_host, number,
        max((op_number, regexp_full_match(op, '{_SAVES_OUTPUT}'))) AS last
    FROM numbered
    WHERE phase = 'forward' AND NOT saves_nothing
    GROUP BY ALL
),
run AS (
    SELECT n.trace_id, n.root, n.number,
        min_by(target_node, (target_ns, edge_id)) FILTER (kind = 'host' AND phase = 'backward')
            AS host_node,
        min_by(source_node, (source_ns, edge_id)) FILTER (part = 'work' AND phase = 'backward')
            AS work_node,
        bool_or(device = 'cpu') AS is_cpu
    FROM numbered AS n
    INNER JOIN ending AS e USING (trace_id, root, is_host, number)
    GROUP BY n.trace_id, n.root, n.number
    HAVING host_node IS NOT NULL AND work_node IS NOT NULL
),
again AS (
    SELECT
        n.edge_id, n.root, n.class, n.target_node, n.target_ns, n.is_host, n.ns, r.host_node,
        if(n.is_host OR r.is_cpu, 'host', 'stream') AS lane,
        if(lane = 'host', r.host_node, r.work_node) AS before_node,
        (SELECT max(greatest(source_node, target_node)) // 2 * 2 FROM changed_edge)
        + dense_rank() OVER (ORDER BY n.target_node // 2) * 2 + n.target_node % 2 AS node
    FROM numbered AS n
    INNER JOIN ending AS e USING (trace_id, root, is_host, number)
    INNER JOIN run AS r USING (trace_id, root, number)
    WHERE n.phase = 'forward' AND (
        op_number < (e.last)[1] OR op_number = (e.last)[1] AND (e.last)[2]
    )
    QUALIFY sum(if(is_host, 0, n.ns)) OVER (PARTITION BY n.trace_id, n.root, n.number) > 0
)
SELECT *, lag(node) OVER (PARTITION BY before_node ORDER BY target_ns, edge_id) AS earlier_node
FROM again
"""

# The outermost selected module; without one, the complete forward pass is checkpointed.
_OUTERMOST = """module[:list_filter(
        range(1, length(module) + 1),
        LAMBDA i: substr(module, i + 1, 1) IN ('.', '/', '') AND {chosen}
    )[1]]"""
_ALL_MODULES = "'the forward pass'"

# The first work of a stream may depend on the host.
_FIRST_OF_STREAM = """
SELECT DISTINCT ON (a.before_node) h.trace_id, h.source_node, a.before_node AS target_node,
    'stream' AS kind, 'gap' AS part, h.source_ns, w.target_ns, 0 AS ns
FROM changed_again AS a
INNER JOIN changed_edge AS h ON a.host_node = h.target_node AND h.kind = 'host'
INNER JOIN changed_edge AS w ON a.before_node = w.target_node
ANTI JOIN changed_edge AS e
    ON a.before_node = e.target_node AND e.kind IN ('stream', 'concurrent')
WHERE a.lane = 'stream'
"""

# A chain is inserted before the outermost op or range that contains the node and starts after its
# last dependency. Earlier host time stays before the chain.
_CHAINS = """
WITH chain AS (
    SELECT lane, before_node, arg_max(node, (target_ns, edge_id)) AS last_node
    FROM changed_again
    GROUP BY lane, before_node
),
way AS (
    SELECT c.*, e.edge_id, e.source_ns, e.target_ns
    FROM chain AS c
    INNER JOIN changed_edge AS e
        ON c.before_node = e.target_node AND c.lane = CASE
            WHEN e.part = 'host' THEN 'host'
            WHEN e.kind IN ('stream', 'concurrent') THEN 'stream'
        END
),
latest AS (
    SELECT lane, before_node, last_node, max(source_ns) AS source_ns,
        arg_max(edge_id, (source_ns, -edge_id)) AS latest_id, any_value(target_ns) AS target_ns
    FROM way
    GROUP BY ALL
),
place AS (
    SELECT
        l.*, min(coalesce(v.ts_ns + k.shift_ns, l.target_ns)) AS recorded_ns
    FROM latest AS l
    INNER JOIN graph_span AS s ON l.before_node // 2 = s.span_id
    INNER JOIN graph_clock AS k ON s.trace_id = k.trace_id
    LEFT JOIN event AS v
        ON s.trace_id = v.trace_id AND s.pid = v.pid AND s.tid = v.tid
            AND v.ts_ns + k.shift_ns >= l.source_ns AND v.ts_ns + k.shift_ns < l.target_ns
            AND v.ts_ns + v.dur_ns + k.shift_ns > l.target_ns
            AND (is_op(v.category) OR is_annotation(v.category) OR is_python_call(v.category))
    GROUP BY ALL
),
numbered AS (
    SELECT *,
        (SELECT max(node) // 2 FROM changed_again) * 2 + row_number() OVER () * 2 AS first_node
    FROM place
)
SELECT
    n.before_node, n.first_node, n.last_node, n.latest_id, n.recorded_ns, i.edge_id,
    if(n.lane = 'host' AND i.target_ns > i.source_ns,
        (n.recorded_ns - i.source_ns) / (i.target_ns - i.source_ns), 0) AS share
FROM numbered AS n
INNER JOIN way AS i USING (before_node)
"""

_COPIES = """
INSERT INTO changed_edge BY NAME
WITH chain AS (FROM changed_chain WHERE edge_id = latest_id),
copied AS (
    SELECT a.edge_id, coalesce(a.earlier_node, c.first_node) AS source_node, a.node, 1 AS share,
        NULL AS begin_ns
    FROM changed_again AS a
    INNER JOIN chain AS c USING (before_node)
    UNION ALL
    SELECT l.edge_id, s.node + l.source_node % 2 - s.node % 2, t.node, 1, NULL
    FROM changed_edge AS l
    INNER JOIN changed_again AS s ON l.source_node // 2 = s.target_node // 2
    INNER JOIN changed_again AS t ON l.target_node = t.target_node
    WHERE l.kind = 'launch' AND s.target_node % 2 = 1
    UNION ALL
    SELECT edge_id, last_node, before_node, 1 - share, recorded_ns
    FROM chain
)
SELECT e.* REPLACE (
    (SELECT max(edge_id) FROM changed_edge) + row_number() OVER () AS edge_id,
    c.source_node AS source_node,
    c.node AS target_node,
    coalesce(c.begin_ns, e.source_ns) AS source_ns,
    'assumed' AS known_by,
    if(e.phase = 'forward', 'recompute', e.phase) AS phase,
    e.share * c.share AS share,
    0 AS is_end, 0 AS quick_rest_ns, 0 AS usual_rest_ns, 0 AS slow_rest_ns
)
FROM copied AS c
INNER JOIN changed_edge AS e USING (edge_id);

UPDATE changed_edge AS e
SET target_node = c.first_node, share = e.share * c.share, instant = NULL
FROM changed_chain AS c
WHERE e.edge_id = c.edge_id;

INSERT INTO added_work BY NAME
SELECT node AS end_node, target_node // 2 AS span_id, before_node // 2 AS near_id, root
FROM changed_again
WHERE node % 2 = 1;

INSERT INTO entered_thread BY NAME
SELECT before_node // 2 AS near_id, recorded_ns, first_node, last_node
FROM changed_chain
WHERE edge_id = latest_id
"""

# Hooks and random state took 0.6 to 0.9 ms per module in traces of torch 2.13 on a CPU.
_CHECKPOINT_NS = 1_000_000

# Increase of the gap before a backward op due to recomputation.
_BACK = """
WITH gap AS (
    SELECT e.edge_id, e.trace_id, e.op, e.usual_ns, s.phase = 'recompute' AS is_back, s.is_chosen
    FROM changed_edge AS e
    INNER JOIN (
        SELECT target_node, phase, phase = 'recompute' AND {chosen} AS is_chosen
        FROM changed_edge WHERE part IN ('work', 'call')
    ) AS s ON e.source_node = s.target_node
    WHERE e.part = 'host' AND e.phase = 'backward' AND s.phase IN ('backward', 'recompute')
),
mostly AS (
    SELECT trace_id, op, median(usual_ns) AS ns
    FROM gap
    WHERE NOT is_back
    GROUP BY GROUPING SETS ((trace_id, op), (trace_id))
)
SELECT g.edge_id, g.trace_id, g.usual_ns, least(coalesce(m.ns, a.ns), g.usual_ns) AS left_ns
FROM gap AS g
LEFT JOIN mostly AS m ON g.trace_id = m.trace_id AND g.op = m.op
LEFT JOIN mostly AS a ON g.trace_id = a.trace_id AND a.op IS NULL
WHERE g.is_back AND g.is_chosen AND g.usual_ns > 0
"""

# Remaining share of the host time in the forward pass. The time to enter a checkpointed module is
# not recorded; it is assumed to equal the gaps in changed_back.
_SHARE_OF_FORWARD = """
SELECT b.trace_id, greatest(1 - b.ns / h.ns, 0) AS share
FROM (SELECT trace_id, sum(usual_ns - left_ns) AS ns FROM changed_back GROUP BY ALL) AS b
INNER JOIN (
    SELECT trace_id, sum(usual_ns) AS ns
    FROM changed_edge
    WHERE part = 'host' AND phase = 'forward'
    GROUP BY ALL
    HAVING sum(usual_ns) > 0
) AS h USING (trace_id)
"""

# Repeated hooks and gathers take as long in the backward pass as in the forward pass.
_SHARE_OF_BACKWARD = """
SELECT trace_id, part, greatest(
    1 - sum(usual_ns) FILTER (phase = 'forward')
    / nullif(sum(usual_ns) FILTER (phase = 'backward'), 0), 0
) AS share
FROM changed_edge
WHERE part IN ('host', 'work')
GROUP BY ALL
"""


def _recompute(edges: Edges, change: Change) -> list[str]:
    return (_stop_recomputing if change.action == OFF else _start_recomputing)(edges, change)


def _stop_recomputing(edges: Edges, change: Change) -> list[str]:
    edges.create("changed_back", _BACK.format(chosen=where_of(change)))
    for keyword in (None, "host"):
        terms = (*change.terms, ("phase", "recompute"))
        part = replace(change, keyword=keyword, terms=terms, action=REMOVE, factor=0.0)
        plain.CHANGES[keyword](edges, part)
    edges.update(
        "share = e.share * b.left_ns / b.usual_ns",
        "e.edge_id = b.edge_id",
        "changed_back AS b",
    )
    edges.update(
        "quick_ns = round(quick_ns * s.share)",
        "e.trace_id = s.trace_id AND e.part = 'host' AND e.phase = 'forward'",
        f"({_SHARE_OF_FORWARD}) AS s",
    )
    [(gap_ms,)] = edges.run("SELECT sum(usual_ns - left_ns) / 1e6 FROM changed_back")
    hooks = []
    if edges.run(
        "FROM event WHERE contains(name, 'PreBackwardFunction') OR contains(name, 'deepspeed/') "
        "LIMIT 1"
    ):
        edges.update(
            "quick_ns = round(quick_ns * s.share)",
            "(e.trace_id, e.part) = (s.trace_id, s.part) AND e.phase = 'backward' "
            "AND s.share IS NOT NULL",
            f"({_SHARE_OF_BACKWARD}) AS s",
        )
        hooks = [
            (
                "the repeated DeepSpeed hooks remain (the lower bound of the step time omits as "
                "much hook time as one forward pass has)"
            )
        ]
    return [
        *hooks,
        (
            "recomputation disappears, and so do the host time that launches it and "
            f"{gap_ms or 0:.3f} ms of the gaps before the backward pass continues"
        ),
        (
            "the time of checkpointing itself in the forward pass remains (in the lower bound of "
            "the step time, it shrinks by as much as those gaps)"
        ),
    ]


def _start_recomputing(edges: Edges, change: Change) -> list[str]:
    globs = [glob for column, glob in change.terms if column == "module"]
    has_modules = edges.count("part = 'work' AND module NOT LIKE '(%'") > 0
    if len(globs) > 1 or (has_modules and not globs):
        raise UsageError(
            f"{change.text!r}: which modules?", hint="recompute on module=model.layers.*"
        )
    edges.need(where_of(change, "part = 'work'"), change, "no matching work")
    if edges.count(where_of(change, "part = 'work' AND phase = 'recompute'")):
        raise QueryError(f"{change.text!r}: these modules are already recomputed")
    root = _ALL_MODULES
    if globs:
        chosen = where_of(replace(change, terms=(("module[:i]", globs[0]),)))
        root = _OUTERMOST.format(chosen=chosen)
    others = replace(change, terms=tuple(term for term in change.terms if term[0] != "module"))
    edges.create("changed_again", _AGAIN.format(root=root, others=where_of(others)))
    [(count, host_ns, work_ns)] = edges.run(
        "SELECT count(DISTINCT root), coalesce(sum(ns) FILTER (is_host), 0), "
        "sum(ns) FILTER (NOT is_host) FROM changed_again"
    )
    if not count:
        raise QueryError(
            f"{change.text!r}: these modules have no forward work followed by a backward pass"
        )
    edges.add(_FIRST_OF_STREAM)
    edges.create("changed_chain", _CHAINS)
    edges.run(_COPIES)
    # Without modules, the number of checkpointed parts is unknown, but at most one per attention.
    edges.update(
        f"slow_ns = slow_ns + {_CHECKPOINT_NS} * greatest((SELECT max(count) FROM ("
        "SELECT count(*) FILTER (NOT is_host AND (is_softmax(class) "
        "OR serving_task_of(class) = 'attention')) AS count FROM changed_again "
        f"WHERE root = {_ALL_MODULES} GROUP BY before_node)), 1)",
        "part = 'host' AND source_node IN (SELECT first_node FROM changed_chain)",
    )
    return [
        (
            f"{f'{count} modules are' if globs else 'each forward pass is'} recomputed "
            f"before the backward pass: {work_ns / 1e6:.3f} ms of compute and "
            f"{host_ns / 1e6:.3f} ms of host time, without communication"
        ),
        (
            "recomputation stops where a module saves its last tensor, as in torch's "
            "non-reentrant checkpoint: the last GEMM is usually not repeated"
        ),
        (
            "the host time of checkpointing itself (hooks, random state) is not included (the "
            "interval allows 1 ms per module, or per attention if no modules are recorded)"
        ),
    ]


# The last kernel of an unfused norm reads one tensor and writes one, like a fused norm. The
# backward pass reads one more.
_NORMS = """
WITH work AS (
    SELECT e.*, m.module_id,
        lead((m.module_id, phase)) OVER stream IS DISTINCT FROM (m.module_id, phase) AS is_last
    FROM changed_edge AS e
    LEFT JOIN (
        SELECT trace_id, path AS module, min(module_id) AS module_id
        FROM module
        WHERE class ILIKE '%norm%'
        GROUP BY ALL
    ) AS m USING (trace_id, module)
    WHERE part = 'work' AND work_kind = 'compute'
    WINDOW stream AS (PARTITION BY e.trace_id, device, stream ORDER BY target_ns, edge_id)
),
phase AS (
    SELECT trace_id, module, phase, sum(usual_ns) AS ns, count(*) AS count,
        sum(usual_ns) FILTER (is_last) AS last_ns, count(*) FILTER (is_last) AS call_count
    FROM work
    WHERE module_id IS NOT NULL AND {chosen}
    GROUP BY ALL
),
norm AS (
    SELECT trace_id, module, sum(last_ns) / sum(call_count) AS last_ns
    FROM phase
    WHERE phase = 'forward'
    GROUP BY ALL
    HAVING sum(count) > 2 * sum(call_count)
)
SELECT p.*,
    least(n.last_ns * call_count * if(phase = 'backward', 1.5, 1) / p.ns, 1) AS left_share
FROM phase AS p
INNER JOIN norm AS n USING (trace_id, module)
WHERE p.ns > 0
"""


def _fuse_norms(edges: Edges, change: Change) -> list[str]:
    edges.create("changed_norm", _NORMS.format(chosen=where_of(change)))
    [(count, less_ns)] = edges.run(
        "SELECT count(DISTINCT module), sum(ns * (1 - left_share)) FROM changed_norm"
    )
    if not count:
        raise QueryError(f"{change.text!r}: no norm of several kernels or ops in this trace")
    for parts, share in (
        ("'work'", "n.left_share"),
        ("'host', 'call'", "n.call_count / n.count"),
    ):
        edges.update(
            scaled(share),
            "(e.trace_id, e.module) = (n.trace_id, n.module) AND e.phase = n.phase "
            f"AND e.part IN ({parts})",
            "changed_norm AS n",
        )
    return [
        (
            f"each of {count} norms becomes one kernel, as long as the last kernel of the unfused "
            f"norm, and 1.5 times as long in the backward pass: {less_ns / 1e6:.3f} ms less"
        ),
        "the host time of a norm shrinks to the host time of one op",
    ]


_HOST_OF_COMPILED_US = (30, 45, 60)
"""Host time per kernel of compiled code without CUDA graphs, µs: minimum, typical, and maximum.

Two programs on an H200 took 38 to 53 µs, and their kernels between GEMMs took 0.26 and 0.30 of
their eager time. Small loops and other CPUs can be outside this range.
"""

_FUSED = f"""
SELECT e.edge_id, e.phase, {OWN_NS} AS ns,
    row_number() OVER (PARTITION BY c.chain_id ORDER BY {OWN_NS} DESC, e.edge_id) = 1 AS is_longest
FROM changed_edge AS e
INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id
INNER JOIN compile_chain AS c
    ON s.trace_id = c.trace_id AND s.event_id = c.event_id AND s.piece = c.piece
WHERE e.part = 'work'
"""

_LEFT_BY_PHASE = f"""
SELECT phase, count(*) FILTER (part = 'work' AND device <> 'cpu') AS kernel_count,
    sum({OWN_NS}) FILTER (part IN ('host', 'call')) AS host_ns
FROM changed_edge
WHERE phase <> 'optimizer'
AND edge_id NOT IN (SELECT edge_id FROM changed_fused WHERE NOT is_longest)
GROUP BY phase
HAVING kernel_count > 0 AND host_ns > 0
ORDER BY phase
"""


def _compile_model(edges: Edges, change: Change) -> list[str]:
    if edges.count("is_fused(class)"):
        raise QueryError(f"{change.text!r}: kernels in this trace are already compiled")
    edges.create("changed_fused", _FUSED)
    [(count, ms, fused_ms, fused_count)] = edges.run(
        "SELECT count(*), sum(ns) / 1e6, sum(ns) FILTER (is_longest) / 1e6, "
        "count(*) FILTER (is_longest) FROM changed_fused"
    )
    if count == fused_count:
        raise QueryError(
            f"{change.text!r}: no consecutive kernels between GEMMs on a GPU in this trace"
        )
    least_us, usual_us, most_us = _HOST_OF_COMPILED_US
    hosts = edges.run(_LEFT_BY_PHASE)
    edges.remove_work("edge_id IN (SELECT edge_id FROM changed_fused WHERE NOT is_longest)")
    # A fused kernel moves about the bytes of the longest kernel of its chain, and at most half of
    # all bytes.
    edges.update(
        f"slow_ns = round(slow_ns * greatest({ms!r} / 2 / {fused_ms!r}, 1))::BIGINT",
        "edge_id IN (SELECT edge_id FROM changed_fused WHERE is_longest)",
    )
    assumed = []
    for phase, kernel_count, ns in hosts:
        factor = min(kernel_count * usual_us * 1000 / ns, 1)
        chosen = (("phase", phase),)
        host = replace(change, keyword="host", terms=chosen, action=SCALE, factor=factor)
        assumed += plain.CHANGES["host"](edges, host)
        edges.update(
            f"quick_ns = round(quick_ns * {least_us / usual_us!r})::BIGINT, "
            f"slow_ns = round(slow_ns * {most_us / usual_us!r})::BIGINT",
            where_of(host, "part IN ('host', 'call')"),
        )
    return [
        (
            f"{count:,} kernels between GEMMs in the trace become {fused_count:,}, each as long as "
            f"the longest kernel that it replaces: {ms:,.1f} ms become {fused_ms:,.1f} ms"
        ),
        (
            f"after fusion, the host takes {usual_us} µs per kernel, about as much as in two "
            "measured programs on an H200"
        ),
        "the optimizer is not compiled, and no CUDA graphs are captured",
        *dict.fromkeys(assumed),
    ]


# Work between the first and the last GEMM of a module call with a softmax. Without modules, work
# between consecutive batched GEMMs of a stream with a softmax between them.
_ATTENTION = """
WITH work AS (
    SELECT *, is_gemm(class) AS is_gemm,
        coalesce(module, '(unattributed)') <> '(unattributed)' AS has_module,
        module IS DISTINCT FROM lag(module) OVER stream
        OR phase IS DISTINCT FROM lag(phase) OVER stream AS is_other
    FROM changed_edge
    WHERE part = 'work' AND work_kind = 'compute'
    WINDOW stream AS (PARTITION BY trace_id, device, stream ORDER BY target_ns, edge_id)
),
numbered AS (
    SELECT *,
        is_gemm AND op IN ('aten::bmm', 'aten::baddbmm', 'aten::matmul') AS is_batched,
        count(if(is_other, 1, NULL)) OVER stream AS call,
        count(if(is_gemm, 1, NULL)) OVER stream AS stretch
    FROM work
    WINDOW stream AS (PARTITION BY trace_id, device, stream ORDER BY target_ns, edge_id)
),
call AS (
    SELECT trace_id, device, stream, call,
        min(target_ns) FILTER (is_gemm) AS first_ns, max(target_ns) FILTER (is_gemm) AS last_ns
    FROM numbered
    WHERE has_module AND {chosen}
    GROUP BY ALL
    HAVING bool_or(is_softmax(class))
),
stretch AS (
    SELECT trace_id, device, stream, stretch, bool_or(is_batched) AS is_batched,
        bool_or(is_softmax(class) AND NOT has_module AND {chosen}) AS has_softmax,
        lead(bool_or(is_batched)) OVER (
            PARTITION BY trace_id, device, stream ORDER BY stretch
        ) AS is_before_batched
    FROM numbered
    GROUP BY trace_id, device, stream, stretch
    QUALIFY has_softmax AND bool_or(is_batched) AND is_before_batched
)
SELECT edge_id, usual_ns, target_node // 2 AS span_id, phase, is_gemm
FROM numbered
INNER JOIN call USING (trace_id, device, stream, call)
WHERE target_ns BETWEEN first_ns AND last_ns
UNION ALL
SELECT n.edge_id, n.usual_ns, n.target_node // 2, n.phase, n.is_gemm
FROM numbered AS n
INNER JOIN stretch AS s ON n.trace_id = s.trace_id AND n.device = s.device AND n.stream = s.stream
    AND (n.stretch = s.stretch OR n.is_batched AND n.stretch = s.stretch + 1)
"""


def _fuse_attention(edges: Edges, change: Change) -> list[str]:
    edges.create("changed_between", _ATTENTION.format(chosen=where_of(change)))
    removed = "FROM changed_between WHERE NOT is_gemm"
    [(count, gone_ns)] = edges.run(f"SELECT count(*), sum(usual_ns) {removed}")
    if not count:
        raise QueryError(
            f"{change.text!r}: no softmax between GEMMs of one module or between two "
            "consecutive batched GEMMs"
        )
    edges.update(
        scaled(0),
        f"part = 'host' AND target_node // 2 IN (SELECT span_id {removed} UNION "
        "SELECT source_node // 2 FROM changed_edge "
        f"WHERE kind = 'launch' AND target_node // 2 IN (SELECT span_id {removed}))",
    )
    edges.update(
        scaled(1.25),
        "device = 'cpu' AND edge_id IN "
        "(SELECT edge_id FROM changed_between WHERE is_gemm AND phase = 'backward')",
    )
    edges.remove_work(f"edge_id IN (SELECT edge_id {removed})")
    return [
        (
            f"the {count} kernels or ops between the GEMMs of attention disappear "
            f"({gone_ns / 1e6:.3f} ms), with the host time that launches them"
        ),
        (
            "the GEMMs take their recorded time, because they already read queries, "
            "keys, and values and write outputs (on a CPU, a quarter more in the "
            "backward pass to recompute the scores)"
        ),
    ]


def _accumulate(edges: Edges, change: Change) -> list[str]:
    passes = where_of(change, "phase IN ('forward', 'backward', 'recompute', 'data')")
    backward = f"part = 'work' AND phase = 'backward' AND {passes}"
    edges.need(backward, change, "no matching pass")
    edges.update(
        ", ".join(
            f"{one} = {one} * {change.factor!r}"
            for one in ("factor", "other_factor", "loading_factor", "copies")
        ),
        f"part IN ('host', 'work', 'call') AND {passes} "
        "AND coalesce(part = 'host' OR collective_of(class) NOT IN ('allreduce', 'reducescatter'), "
        "TRUE)",
    )
    return [
        "each micro-batch takes the recorded time, including data loading",
        "gradients are reduced once per optimizer step, with the recorded overlap",
    ]


# DeepSpeed's stage 3 runs hooks around each module. In the backward pass, they are autograd nodes.
# In the forward pass, their time is the time between two ops with sequence numbers around a
# DeepSpeed hook op, minus the usual time without a hook.
_ZERO_HOOKS = f"""
WITH op AS (
    SELECT {HOST_SPAN},
        e.sequence_number, coalesce(e.forward_thread, 0) = 0 AS is_forward,
        regexp_matches(e.name, '(^|: )P(re|ost)BackwardFunction') AS is_hook,
        starts_with(e.name, 'autograd::engine::') AS is_node
    FROM event AS e
    INNER JOIN graph_clock AS c USING (trace_id)
    WHERE is_op(e.category)
),
numbered AS (
    SELECT
        *,
        count(if(is_hook, 1, NULL)) OVER before AS hook_count,
        max(end_ns) FILTER (NOT is_hook) OVER before AS before_ns
    FROM op
    WHERE sequence_number >= 0 AND NOT is_node AND is_forward
    WINDOW before AS (
        PARTITION BY part ORDER BY start_ns, end_ns DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
gap AS (
    SELECT
        part, before_ns AS start_ns, start_ns AS end_ns,
        hook_count > lag(hook_count) OVER (PARTITION BY part ORDER BY start_ns, end_ns DESC)
            AS is_hooked
    FROM numbered
    WHERE NOT is_hook
),
other AS (
    SELECT (e.trace_id, s.pid, s.tid) AS part, e.source_ns AS start_ns
    FROM changed_edge AS e
    INNER JOIN graph_span AS s ON e.target_node // 2 = s.span_id
    WHERE e.part IN ('work', 'call') AND s.tid IS NOT NULL
    AND coalesce(e.phase NOT IN ('forward', 'recompute'), TRUE)
),
within_pass AS (
    SELECT g.*
    FROM gap AS g
    ASOF LEFT JOIN other AS o ON g.part = o.part AND g.end_ns > o.start_ns
    WHERE g.start_ns < g.end_ns AND coalesce(o.start_ns < g.start_ns, TRUE)
),
usual AS (
    SELECT coalesce(median(end_ns - start_ns) FILTER (NOT is_hooked), 0)::BIGINT AS ns
    FROM within_pass
)
SELECT g.part, least(g.start_ns + u.ns, g.end_ns) AS start_ns, g.end_ns
FROM within_pass AS g
CROSS JOIN usual AS u
WHERE g.is_hooked
UNION ALL
SELECT part, start_ns, end_ns
FROM op
WHERE is_hook AND is_node
"""


def _change_zero(edges: Edges, change: Change) -> list[str]:
    """Keep complete parameters on each rank: ZeRO stage 2 instead of the recorded stage 3."""
    if change.count == 3:
        raise QueryError(
            f"{change.text!r}: a trace of another stage does not show the gathers of each "
            "module or the host time of stage-3 hooks",
            hint="record a run of stage 3; from that, stage 2 can be predicted",
        )
    if change.count != 2:
        raise QueryError(
            f"{change.text!r}: from a run of stage 3, only stage 2 can be predicted",
            hint="the trace does not show which tensors another stage gathers or reduces, or when",
        )
    gathers = where_of(change, "collective_of(class) = 'allgather'")
    for phase in ("forward", "backward"):
        where = f"{gathers} AND part = 'work' AND phase = '{phase}'"
        edges.need(where, change, f"no parameter gather in the {phase} pass")
    again = f"{gathers} AND phase IN ('backward', 'recompute')"
    edges.update(scaled(0), f"part = 'host' AND {again}")
    edges.remove_work(f"part = 'work' AND {again}")
    assumption = (
        "gathers in the backward pass disappear; gathers in the forward pass remain, "
        "because updated parameters are gathered once"
    )
    edges.create("changed_span", _ZERO_HOOKS)
    [(hook_ns,)] = edges.run("SELECT sum(end_ns - start_ns) FROM changed_span")
    if not hook_ns:
        stays = "the trace does not show the host time of stage-3 hooks: the gain is a lower bound"
        return [assumption, stays]
    removal = replace(change, action=REMOVE, factor=0.0)
    rest = where_of(change, "work_kind IS DISTINCT FROM 'comm' AND kind <> 'posted_wait'")
    edges.change_spans(removal, "hook", rest)
    hooks = (
        f"stage-3 hooks around modules disappear: {hook_ns / 1e6:.3f} ms of thread time, "
        "including waits"
    )
    return [assumption, hooks]


_RULES = {
    "attention": ("advice_attention", "no softmax between batched GEMMs"),
    "optimizer": ("advice_optimizer", "no optimizer with many small kernels or ops"),
    "offload": ("advice_offload", "no copies of an offloaded optimizer"),
}
"""Advice analysis that lists the changes of a method, and the message if nothing matches."""


def expand(edges: Edges, change: Change) -> tuple[list[Change], list[Change], list[str]]:
    """Return the parts of a change, their variants with the largest gain, and the assumptions."""
    if change.keyword == "offload" and change.action == ON:
        raise QueryError(
            f"{change.text!r}: the optimizer would run on the CPU, and a trace without "
            "offload does not show how long that takes",
            hint="record a run with offload: collect --opt with O",
        )
    if change.keyword not in _RULES or change.terms:
        factor = change.factor if change.least is None else change.least
        return [change], [replace(change, factor=factor)], []
    name, nothing = _RULES[change.keyword]
    rows = run_analysis(edges.connection, load_catalog().analysis(name), {}).to_dicts()
    if not rows:
        raise QueryError(f"{change.text!r}: {nothing} in this trace")
    texts = dict.fromkeys(text for row in rows for text in row["change"].split("; "))
    usual = [parse_change(text) for text in texts]
    most = [part for one in usual for part in expand(edges, one)[1]]
    return usual, most, [f"{change.text!r} means {', '.join(texts)}"]


APPLY: Mapping[str | None, Apply] = {
    **plain.CHANGES,
    "bandwidth": links.change_links,
    "latency": links.change_links,
    "group": links.change_collectives,
    "algorithm": links.change_collectives,
    "overlap": links.hide_communication,
    "ranks": scaling.even_ranks,
    "device": scaling.scale_to_device,
    "precision": scaling.scale_to_type,
    "size": scaling.resize,
    "recompute": _recompute,
    "norm": _fuse_norms,
    "attention": _fuse_attention,
    "compile": _compile_model,
    "accumulate": _accumulate,
    "zero": _change_zero,
}
"""Functions that apply a change to the edges and return assumptions, by keyword.

They raise UsageError for an incomplete change, and QueryError if nothing matches or the trace lacks
required data.
"""
