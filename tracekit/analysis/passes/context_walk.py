"""Finds the context (module, phase, op) of launches, ops, and allocations in one pass per thread.

The ranges, Python calls, ops, and launches of a thread are read by start time, outermost first. A
stack holds the open spans; the top of the stack is the context of a launch. If two spans cross, the
earlier one ends where the later one begins. If a span ends after its enclosing span only because of
a rounding error, its end is moved to the end of the enclosing span.

Only spans with a meaning (table ``range_marker``) are read, and results are written immediately, so
memory does not grow with the trace. native/passes/context_walk.c maintains the stack. This module
provides its input, and derives the tree of modules from its output.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import duckdb
import msgspec

from tracekit.analysis.names.rules import HOST_EVENTS, PHASES
from tracekit.analysis.passes.sweeps import SWEPT, swept
from tracekit.analysis.passes.walked_modules import Module, finished
from tracekit.database.connections import session_of
from tracekit.sql_text import quote

WALK = "context_walk"
"""Name of the step."""

REQUIRES = ("range_marker", "launch", "captured_call", "accelerator")
"""Relations that the step reads."""

TABLES = ("walked", "walked_module")
"""The tables that the step fills, in the database ``scratch``: contexts and modules."""

# Bits of the last column of a span, as in native/passes/context_walk.c. The remaining bits are the
# marker number, 0 for a launch.
_HAS_SEQUENCE, _IS_WANTED, _IS_NODE, _HOLDS_BACKWARD, _IS_NUMBERED, _IGNORES_CALLS = (
    1 << bit for bit in range(6)
)
_BITS = 6

# Bits of a context's column `how`, and low bits of `phase_mark` that hold the phase, as in C.
_AGAIN, _IN_GRAD_MODE, _NUMBERED_IN_NODE = 1, 2, 16
_PHASE_BITS = 4

# Kinds of markers, and facts about markers, in the order of the constants in C.
_KINDS = [
    "op",
    "node",
    "module",
    "backward",
    "frame",
    "part",
    "recompute",
    "range",
    "span",
    "derivative",
]
_IS_BARE_NODE = "(means = 'node' AND NOT regexp_matches(name, 'autograd::'))"
_IS_QUALIFIED = "(means IN ('module', 'backward') AND NOT is_python_call(category))"
_FACTS = (
    "row_name IS NOT NULL AND NOT is_weak",
    "row_name IS NOT NULL AND is_weak",
    "is_op(category)",
    "is_annotation(category) AND row_name = '(communication)'",
    _IS_BARE_NODE,
    r"regexp_matches(name, 'Backward\d+$')",
    f"contains(label, '::') AND NOT {_IS_BARE_NODE}",
    f"label IN ('aten::detach', 'detach') AND NOT {_IS_BARE_NODE}",
    _IS_QUALIFIED,
    "layer = 'begin'",
    "layer = 'next'",
)
_FLAGS = " + ".join(
    f"(coalesce({fact}, FALSE)::BIGINT << {bit})" for bit, fact in enumerate(_FACTS, start=8)
)
_SOURCES = ["frame", "range", "nn.Module", "tk"]
_SOURCE = """CASE
    WHEN means IN ('frame', 'range') THEN means
    WHEN is_python_call(category) THEN 'nn.Module'
    WHEN name LIKE 'tk/%' THEN 'tk'
    ELSE 'range'
END"""

# Optimizer steps that contain a backward pass.
_CLOSURE_STEPS = """
WITH node AS (
    SELECT e.trace_id, e.pid, e.ts_ns
    FROM event AS e
    INNER JOIN range_marker AS m ON e.category = m.category AND e.name = m.name
    WHERE m.means = 'node' OR e.forward_thread > 0
)

SELECT o.event_id
FROM (
    SELECT e.event_id, e.trace_id, e.pid, e.ts_ns, e.ts_ns + e.dur_ns AS end_ns
    FROM event AS e
    INNER JOIN range_marker AS m ON e.category = m.category AND e.name = m.name
    WHERE m.phase = 'optimizer'
) AS o
ASOF JOIN node AS n ON o.trace_id = n.trace_id AND o.pid = n.pid AND o.ts_ns <= n.ts_ns
WHERE n.ts_ns < o.end_ns
"""

# Added only if a name marks an optimizer step, because this condition is slow to plan.
_HOLDS = f"m.phase = 'optimizer' AND e.event_id IN ({_CLOSURE_STEPS})"

# The first rows describe the markers, from number 0.
_SPANS = f"""
WITH span AS (
    SELECT
        e.trace_id, e.pid, e.tid, e.event_id, e.ts_ns, e.ts_ns + e.dur_ns AS end_ns,
        CASE WHEN is_python_call(e.category) THEN 0 WHEN is_annotation(e.category) THEN 1 ELSE 2 END
            AS layer,
        CASE WHEN is_op(e.category) THEN e.external_id END AS external_id,
        (m.marker_id::BIGINT << {_BITS})
            + CASE WHEN e.sequence_number IS NULL THEN 0 ELSE {_HAS_SEQUENCE} END
            + CASE
                WHEN e.trace_id NOT IN (SELECT trace_id FROM accelerator WHERE accelerator = 'cpu')
                    THEN 0
                WHEN is_op(e.category) OR m.row_name = '(communication)' THEN {_IS_WANTED}
                ELSE 0
            END
            + CASE WHEN e.forward_thread > 0 THEN {_IS_NODE} ELSE 0 END
            + CASE WHEN $holds THEN {_HOLDS_BACKWARD} ELSE 0 END
            + CASE WHEN $numbered THEN {_IS_NUMBERED} ELSE 0 END
            + CASE WHEN $qualified THEN {_IGNORES_CALLS} ELSE 0 END AS marker
    FROM $event AS e
    INNER JOIN range_marker AS m ON e.category = m.category AND e.name = m.name
    UNION ALL
    SELECT trace_id, pid, tid, launch_id, ts_ns, end_ns, 3, NULL, 0
    FROM launch
    WHERE correlation IS NOT NULL
    $captured
    UNION ALL
    SELECT trace_id, pid, tid, event_id, ts_ns, ts_ns, 3, NULL, 0
    FROM memory
    UNION ALL
    SELECT NULL, 0, NULL, {_KINDS.index("span")}, 0, 0, NULL, NULL, 0
    UNION ALL
    SELECT
        NULL, marker_id, NULL,
        list_position({_KINDS}, means) - 1
        + (coalesce(list_position({[*PHASES]}, phase), 0) << {_PHASE_BITS})
        + ((list_position({_SOURCES}, {_SOURCE}) - 1) << {8 + len(_FACTS)})
        + {_FLAGS},
        dense_rank() OVER (ORDER BY label),
        dense_rank() OVER (ORDER BY module_class), NULL, NULL, 0
    FROM range_marker
)

SELECT trace_id, pid, tid, event_id, ts_ns, end_ns, marker
FROM span
ORDER BY
    trace_id NULLS FIRST, pid, tid, ts_ns, end_ns DESC, layer, external_id, marker DESC, event_id
"""

_CAPTURED = """
    UNION ALL
    SELECT trace_id, pid, tid, event_id, ts_ns, end_ns, 3, NULL, 0
    FROM captured_call
"""

# Whether the markers need the conditions on closures, numbered ops, and qualified modules. Without
# need, these conditions are omitted, because they are slow to plan.
_CONDITIONS = f"""
SELECT
    coalesce(bool_or(phase = 'optimizer'), FALSE),
    coalesce(bool_or({_IS_BARE_NODE}), FALSE),
    coalesce(bool_or(means = 'module' AND {_IS_QUALIFIED}), FALSE)
FROM range_marker
"""

# Traces whose ops have sequence numbers; their autograd nodes have them, too.
_NUMBERED = "SELECT DISTINCT trace_id FROM event WHERE sequence_number IS NOT NULL"

# Traces with ranges that name modules. These ranges take precedence over calls of nn.Modules.
_QUALIFIED = """
SELECT DISTINCT e.trace_id
FROM event AS e
INNER JOIN range_marker AS m ON e.category = m.category AND e.name = m.name
WHERE m.means = 'module' AND is_annotation(m.category)
"""


# Returns a row if kernels may have annotations: kernels in CUDA graphs, or recorded by Triton's
# Proton.
_MAY_NAME = """
SELECT 1
FROM launch
WHERE contains(name, 'GraphLaunch')
UNION ALL
SELECT 1
FROM event_kind
WHERE category = 'scope'
LIMIT 1
"""

# Annotated kernels in execution order.
_ANNOTATED = """
SELECT trace_id, annotated_module(args) AS module_name
FROM event
WHERE is_device_work(category) AND regexp_matches(args, '"(?:module_fqn|call_stack)"')
GROUP BY 1, 2
HAVING module_name <> ''
ORDER BY trace_id, min(ts_ns), module_name
"""


def _annotated_modules(connection: duckdb.DuckDBPyConnection) -> dict[int, list[str]]:
    """Return the modules named in kernel annotations, by trace."""
    named: dict[int, list[str]] = {}
    if connection.execute(_MAY_NAME).fetchall():
        for trace_id, name in connection.execute(_ANNOTATED).fetchall():
            named.setdefault(trace_id, []).append(name)
    return named


# New modules are rows without an event: number, parent, marker, and layer number.
_MODULES = f"""
SELECT
    w.trace_id, w.range_number, concat_ws('.', m.label, w.op_id), m.module_class, {_SOURCE},
    {_IS_QUALIFIED}, w.is_recompute
FROM scratch.walked AS w
INNER JOIN range_marker AS m ON w.part_marker_id = m.marker_id
WHERE w.event_id IS NULL
ORDER BY w.trace_id, w.module_number
"""


def walk_contexts(connection: duckdb.DuckDBPyConnection, folder: Path | None = None) -> None:
    """Fill the tables ``walked`` and ``walked_module`` of the database ``scratch``."""
    [(has_optimizer, has_bare_nodes, has_qualified)] = connection.execute(_CONDITIONS).fetchall()
    has_captures = session_of(connection).row_counts["captured_call"]
    spans = (
        _SPANS.replace("$holds", _HOLDS if has_optimizer else "FALSE")
        .replace("$numbered", f"e.trace_id IN ({_NUMBERED})" if has_bare_nodes else "FALSE")
        .replace("$qualified", f"e.trace_id IN ({_QUALIFIED})" if has_qualified else "FALSE")
        .replace("$event", HOST_EVENTS if has_captures else "event")
        .replace("$captured", _CAPTURED if has_captures else "")
    )
    with swept(connection, "contexts", spans):
        _load(connection)
    with tempfile.TemporaryDirectory(prefix="walk", dir=folder) as work:
        file = Path(work) / "modules.json"
        with file.open("wb") as written:
            for trace_id, modules in _walked_modules(connection):
                for row in finished(trace_id, modules):
                    written.write(msgspec.json.encode(row) + b"\n")
        _load_modules(connection, file)


def _walked_modules(
    connection: duckdb.DuckDBPyConnection,
) -> Iterator[tuple[int, list[Module]]]:
    """Yield the modules of each trace, in the order of their numbers."""
    annotated = _annotated_modules(connection)
    rows = iter(connection.execute(_MODULES).fetchone, None)
    for trace_id, found in groupby(rows, lambda row: row[0]):
        modules = [Module(*row[1:]) for row in found]
        known = {module.label for module in modules if module.source == "tk"}
        names = [name for name in annotated.pop(trace_id, ()) if name not in known]
        yield trace_id, [*modules, *map(_annotated, names)]
    for trace_id, names in annotated.items():
        yield trace_id, [*map(_annotated, names)]


def _annotated(name: str) -> Module:
    return Module(None, name, None, "tk", is_qualified=True, is_inside_node=False)


def _load(connection: duckdb.DuckDBPyConnection) -> None:
    """Create table ``walked`` from the contexts."""
    [(count,)] = connection.execute(
        "CREATE OR REPLACE TABLE scratch.walked AS SELECT trace_id::INTEGER AS trace_id, "
        "event_id, op_id, module_number, node_id, "
        f"how & {_AGAIN | _NUMBERED_IN_NODE} > 0 AS is_recompute, "
        f"how & {_AGAIN | _NUMBERED_IN_NODE} = {_NUMBERED_IN_NODE} AS is_numbered, "
        f"how & {_IN_GRAD_MODE} > 0 AS is_in_grad_mode, "
        f"nullif(phase_mark >> {_PHASE_BITS}, 0) AS phase_marker_id, "
        "nullif(abs(row), 0) AS row_marker_id, range_number, hook_number, part_marker_id "
        f"FROM {SWEPT}"
    ).fetchall()
    session_of(connection).row_counts["scratch.walked"] = count


def _load_modules(connection: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Create table ``walked_module`` from a file with a JSON array per module."""
    columns = {
        **dict.fromkeys(("trace_id", "number", "module_id", "parent_id"), "BIGINT"),
        **dict.fromkeys(("name", "class", "path"), "VARCHAR"),
        **dict.fromkeys(("depth", "layer"), "BIGINT"),
        **dict.fromkeys(("source", "rollup_path"), "VARCHAR"),
        **dict.fromkeys(("position", "last_position"), "BIGINT"),
    }
    typed = ", ".join(
        f"j[{place}]::{kind} AS {name}" for place, (name, kind) in enumerate(columns.items(), 1)
    )
    connection.execute(
        f"CREATE OR REPLACE TABLE scratch.walked_module AS SELECT {typed} FROM read_json("
        f"{quote(str(file))}, format = 'newline_delimited', records = false, "
        "columns = {j: 'VARCHAR[]'})"
    )
