"""Finds the context (module, phase, op) of launches, ops, and allocations in one pass per thread.

The ranges, Python calls, ops, and launches of a thread are read by start time, outermost first. A
stack holds the open spans; the top of the stack is the context of a launch. If two spans cross, the
earlier one ends where the later one begins. If a span ends after its enclosing span only because of
a rounding error, its end is moved to the end of the enclosing span.

Only spans with a meaning (table ``range_marker``) are read, and results are written immediately, so
memory does not grow with the trace. native/context_walk.c maintains the stack and handles launches,
ops, and autograd nodes; it calls this module for modules, ranges, and other spans.
"""

from __future__ import annotations

import ctypes
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import duckdb
import msgspec

from tracekit.analysis.rules import HOST_EVENTS
from tracekit.analysis.sweeps import SWEPT, swept
from tracekit.analysis.walk_markers import (
    BACKWARD,
    DERIVATIVE,
    FRAME,
    MODULE,
    NODE,
    OP,
    PART,
    PHASE_BITS,
    RANGE,
    RECOMPUTE,
    Marker,
    is_phase,
    read_markers,
)
from tracekit.analysis.walked_modules import TraceModules, finished
from tracekit.database.connections import session_of
from tracekit.native import Answers
from tracekit.sql_text import quote

WALK = "context_walk"
"""Name of the step."""

REQUIRES = ("range_marker", "launch", "captured_call", "accelerator")
"""Relations that the step reads."""

TABLES = ("walked", "walked_module")
"""The tables that the step fills, in the database ``scratch``: contexts and modules."""

# Bits of the last column of a span; the remaining bits are the marker number, 0 for a launch.
_HAS_SEQUENCE, _IS_WANTED, _IS_NODE, _HOLDS_BACKWARD = 1, 2, 4, 8
_BITS = 4

# Bits of member `how` of a context: recomputed for the backward pass; inside an op with a sequence
# number, so grad mode is on; inside an optimizer step whose closure runs a backward pass, as in
# Lightning; inside a backward pass that is itself differentiated; inside an op with a sequence
# number in an autograd node, which means recomputed unless the pass is differentiated.
_AGAIN, _IN_GRAD_MODE, _IN_CLOSURE_STEP, _IN_DERIVATIVE, _NUMBERED_IN_NODE = 1, 2, 4, 8, 16

# Kinds of spans that are independent work even inside the range of an asynchronous collective.
_WITH_CONTEXT = frozenset((OP, NODE, FRAME, RANGE))

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
            + CASE WHEN $holds THEN {_HOLDS_BACKWARD} ELSE 0 END AS marker
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
)

SELECT trace_id, pid, tid, event_id, ts_ns, end_ns, marker
FROM span
ORDER BY trace_id, pid, tid, ts_ns, end_ns DESC, layer, external_id, marker DESC, event_id
"""

_CAPTURED = """
    UNION ALL
    SELECT trace_id, pid, tid, event_id, ts_ns, end_ns, 3, NULL, 0
    FROM captured_call
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


# A context: op, module, node, how, phase_mark, row, range, hook, part. `how` consists of the bits
# above. `phase_mark`, `row`, and `part` are the markers that determine the phase (with the phase
# number), the row of modules (negative if weak), and the part. Module, range, and hook (the module
# named by a backward hook) are module numbers within the trace. _NONE means none, as in C.
_Context = tuple[int, ...]
_NONE = -1

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
SELECT trace_id, annotated_module(args) AS name
FROM event
WHERE is_device_work(category) AND regexp_matches(args, '"(?:module_fqn|call_stack)"')
GROUP BY ALL
HAVING name <> ''
ORDER BY trace_id, min(ts_ns), name
"""


def _annotated_modules(connection: duckdb.DuckDBPyConnection) -> dict[int, list[str]]:
    """Return the modules named in kernel annotations, by trace."""
    named: dict[int, list[str]] = {}
    if connection.execute(_MAY_NAME).fetchall():
        for trace_id, name in connection.execute(_ANNOTATED).fetchall():
            named.setdefault(trace_id, []).append(name)
    return named


def walk_contexts(connection: duckdb.DuckDBPyConnection, folder: Path | None = None) -> None:
    """Fill the tables ``walked`` and ``walked_module`` of the database ``scratch``."""
    markers = read_markers(connection)
    qualified: set[int] = set()
    if any(marker.kind == MODULE and marker.is_qualified for marker in markers):
        qualified = {trace_id for (trace_id,) in connection.execute(_QUALIFIED).fetchall()}
    numbered: set[int] = set()
    if any(marker.is_bare_node for marker in markers):
        numbered = {trace_id for (trace_id,) in connection.execute(_NUMBERED).fetchall()}
    has_optimizer = any(is_phase(marker.phase_mark, "optimizer") for marker in markers)
    has_captures = session_of(connection).row_counts["captured_call"]
    spans = (
        _SPANS.replace("$holds", _HOLDS if has_optimizer else "FALSE")
        .replace("$event", HOST_EVENTS if has_captures else "event")
        .replace("$captured", _CAPTURED if has_captures else "")
    )
    with tempfile.TemporaryDirectory(prefix="walk", dir=folder) as work:
        modules, nodes = Path(work) / "modules.json", Path(work) / "nodes.json"
        with modules.open("wb") as module_file, nodes.open("wb") as node_file:
            annotated = _annotated_modules(connection)
            walk = _Walk(markers, qualified, numbered, annotated, module_file, node_file)
            answers = Answers(walk.answer, walk.numbers, [*map(_flags, markers)])
            with swept(connection, "contexts", spans, answers):
                _load(connection)
            walk.end()
        _load_modules(connection, modules)
        if nodes.stat().st_size:
            connection.execute(
                "UPDATE scratch.walked "
                "SET is_recompute = FALSE, is_derivative = has_derivative = 1 "
                f"FROM {_listed(nodes, _NODE_COLUMNS)} AS n "
                "WHERE is_numbered AND walked.trace_id = n.trace_id AND walked.node_id = n.node_id"
            )


_DETACH = frozenset(("aten::detach", "detach"))


def _flags(marker: Marker) -> int:
    """Return the flags of a marker that native/context_walk.c defines."""
    has_context = marker.kind in _WITH_CONTEXT or marker.phase_mark
    flags = (
        marker.kind == OP,
        marker.kind == NODE,
        marker.is_bare_node,
        marker.kind == BACKWARD,
        marker.row > 0,
        marker.is_collective,
        has_context,
        marker.is_generated,
        "::" in marker.label and not marker.is_bare_node,
        marker.label in _DETACH and not marker.is_bare_node,
    )
    return sum(1 << place for place, is_set in enumerate(flags) if is_set)


_ANNOTATION = Marker(MODULE, 0, 0, "", None, None, "tk", is_qualified=True)

# Callbacks from native/context_walk.c. _BEGIN_THREAD passes a trace id and expects whether the ops
# of the trace have sequence numbers. _ENTER passes a context, and the start, end, id, and bits of a
# span, and expects the context inside the span. Both also pass the autograd nodes that recompute
# nothing: their number, and the trace, id, and kind of each (1 if the backward pass is
# differentiated, 0 if the node only calls Functions).
_BEGIN_THREAD, _ENTER = 0, 1
_QUESTION, _ANSWER = struct.Struct("14q"), struct.Struct("9q")
_FIRST_NOTED, _NOTED_NUMBERS, _MAX_NOTED = 14, 3, 1000


class _Walk:
    """One pass over the spans of all threads of all traces."""

    def __init__(
        self,
        markers: list[Marker],
        qualified: set[int],
        numbered: set[int],
        annotated: dict[int, list[str]],
        module_file: IO[bytes],
        node_file: IO[bytes],
    ) -> None:
        self._markers = markers
        self._qualified = qualified
        self._numbered = numbered
        self._annotated = annotated
        self._module_file = module_file
        self._node_file = node_file
        self._trace: TraceModules | None = None
        self.numbers = (ctypes.c_int64 * (_FIRST_NOTED + _NOTED_NUMBERS * _MAX_NOTED))()

    def answer(self, question: int) -> None:
        """Handle a callback from native/context_walk.c."""
        *context, _, _, event_id, bits, noted_count = _QUESTION.unpack_from(self.numbers)
        if noted_count:
            stop = _FIRST_NOTED + _NOTED_NUMBERS * noted_count
            each = iter(self.numbers[_FIRST_NOTED:stop])
            for node in zip(*[each] * _NOTED_NUMBERS, strict=True):
                self._node_file.write(msgspec.json.encode(node) + b"\n")
        if question == _BEGIN_THREAD:
            self.begin_thread(context[0])
            self.numbers[0] = context[0] in self._numbered
        elif question == _ENTER:
            assert self._trace is not None
            marker = self._markers[bits >> _BITS]
            inside = _inside(tuple(context), marker, event_id, bits, self._trace)
            _ANSWER.pack_into(self.numbers, 0, *inside)

    def begin_thread(self, trace_id: int) -> None:
        """Begin the next thread."""
        if self._trace is None or self._trace.trace_id != trace_id:
            self.end_trace()
            self._trace = TraceModules(trace_id, trace_id in self._qualified)

    def end(self) -> None:
        """Finish the last trace, and write the modules of traces without spans."""
        self.end_trace()
        for trace_id in [*self._annotated]:
            self.begin_thread(trace_id)
            self.end_trace()

    def end_trace(self) -> None:
        """Write the modules of the current trace."""
        if self._trace is not None:
            for name in self._annotated.pop(self._trace.trace_id, ()):
                self._trace.number(None, name, _ANNOTATION, source="tk")
            for row in finished(self._trace):
                self._module_file.write(msgspec.json.encode(row) + b"\n")
        self._trace = None


def _inside(
    around: _Context, marker: Marker, event_id: int, bits: int, trace: TraceModules
) -> _Context:
    """Return the context inside a span."""
    op, module, node, how, phase_mark, row, span, hook, part = around
    kind = marker.kind
    if kind == MODULE:
        if not (trace.ignores_calls and not marker.is_qualified):
            if node != _NONE or is_phase(marker.phase_mark, "recompute"):
                how |= _AGAIN
            module = trace.number(
                _number(module),
                marker.label,
                marker,
                source=marker.source,
                is_inside_node=module == _NONE and node != _NONE,
            )
            row = 0
            phase_mark = marker.phase_mark or (0 if _is_in_closure(how, phase_mark) else phase_mark)
    elif kind == FRAME:
        phase_mark = marker.phase_mark or phase_mark
        if marker.layer == "begin":
            trace.next_layer = 0
        if module == _NONE or trace.modules[module].module_class != marker.module_class:
            label = marker.label
            if marker.layer == "next":
                label = f"{label}.{trace.next_layer}"
                trace.next_layer += 1
            module = trace.number(_number(module), label, marker, source="frame")
            row = 0
    elif kind == BACKWARD:
        hook = trace.number(None, marker.label, marker, source=marker.source)
    elif kind == PART:
        part = bits >> _BITS
    elif kind == RECOMPUTE:
        how |= _AGAIN
    elif kind == DERIVATIVE:
        op = event_id
        how |= _IN_DERIVATIVE if node != _NONE else _IN_GRAD_MODE
    else:
        if kind == RANGE:
            span = trace.number(_number(span), marker.label, marker, source="range")
        if marker.is_op or bits & _IS_WANTED:
            op = event_id
            if bits & _HAS_SEQUENCE:
                how |= _IN_GRAD_MODE
        if bits & _HOLDS_BACKWARD and node == _NONE:
            how |= _IN_CLOSURE_STEP
        if marker.phase_mark and (
            kind == RANGE or not is_phase(marker.phase_mark, "backward") or not phase_mark
        ):
            phase_mark = marker.phase_mark
        if marker.row > 0:
            row, module = marker.row, _NONE
        elif marker.row < 0 and not row:
            row = marker.row
    return (op, module, node, how, phase_mark, row, span, hook, part)


def _number(number: int) -> int | None:
    return None if number == _NONE else number


def _is_in_closure(how: int, phase_mark: int) -> bool:
    """Return whether the phase comes from an optimizer step with a closure."""
    return bool(how & _IN_CLOSURE_STEP) and is_phase(phase_mark, "optimizer")


_NODE_COLUMNS = ("trace_id", "node_id", "has_derivative")


def _listed(file: Path, columns: Sequence[str], kind: str = "BIGINT") -> str:
    """Return SQL that reads a file of JSON arrays."""
    picked = ", ".join(f"j[{place}] AS {name}" for place, name in enumerate(columns, start=1))
    return (
        f"(SELECT {picked} FROM read_json({quote(str(file))}, format = 'newline_delimited', "
        f"records = false, columns = {{j: '{kind}[]'}}))"
    )


def _load(connection: duckdb.DuckDBPyConnection) -> None:
    """Create table ``walked`` from the contexts."""
    [(count,)] = connection.execute(
        "CREATE OR REPLACE TABLE scratch.walked AS SELECT trace_id::INTEGER AS trace_id, "
        "event_id, op_id, module_number, node_id, "
        f"how & {_AGAIN | _NUMBERED_IN_NODE} > 0 AS is_recompute, FALSE AS is_derivative, "
        f"how & {_AGAIN | _NUMBERED_IN_NODE} = {_NUMBERED_IN_NODE} AS is_numbered, "
        f"how & {_IN_GRAD_MODE} > 0 AS is_in_grad_mode, "
        f"nullif(phase_mark >> {PHASE_BITS}, 0) AS phase_marker_id, "
        "nullif(abs(row), 0) AS row_marker_id, range_number, hook_number, part_marker_id "
        f"FROM {SWEPT}"
    ).fetchall()
    session_of(connection).row_counts["scratch.walked"] = count


def _load_modules(connection: duckdb.DuckDBPyConnection, modules: Path) -> None:
    """Create table ``walked_module`` from the file of modules."""
    columns = {
        **dict.fromkeys(("trace_id", "number", "module_id", "parent_id"), "BIGINT"),
        **dict.fromkeys(("name", "class", "path"), "VARCHAR"),
        **dict.fromkeys(("depth", "layer"), "BIGINT"),
        **dict.fromkeys(("source", "rollup_path"), "VARCHAR"),
        **dict.fromkeys(("position", "last_position"), "BIGINT"),
    }
    typed = ", ".join(f"{name}::{kind} AS {name}" for name, kind in columns.items())
    connection.execute(
        f"CREATE OR REPLACE TABLE scratch.walked_module AS SELECT {typed} "
        f"FROM {_listed(modules, tuple(columns), 'VARCHAR')}"
    )
