"""Walks the CPU's threads once and notes what every launch and op was inside of.

Ranges, Python calls, ops and launches of a thread come in the order of their starts, outer ones
first. A stack holds the open ones; what is on top when a launch begins is its context. Spans that
do not nest cleanly lose nothing: of two that cross, the earlier one ends where the later one
begins, which leaves «the latest span still open» what it is at every moment; an end that is late by
a rounding error is pulled in.

Only what means something is fetched (table ``range_marker``), in chunks, and what is noted is
written to files that DuckDB reads back, so memory does not grow with the trace.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from tracekit.analysis.module_paths import ModulePaths
from tracekit.analysis.range_rules import PHASES
from tracekit.sql_text import quote

if TYPE_CHECKING:
    import duckdb

WALK = "context_walk"
"""What SQL files write under ``Requires`` when they read the tables of the walk."""

REQUIRES = ("range_marker", "launch", "event_category", "accelerator")
"""What must be in the store before the walk."""

TABLES = ("walked", "walked_module")
"""The tables of the walk, in the database ``scratch``: contexts, and the modules that were met."""

ROUNDING_NS = 1000
"""A span that ends later than the span around it by no more than this ends with it."""

MAX_MODULES = 100_000
"""Ranges whose names never repeat stop being modules of their own after this many in a trace."""

_CHUNK_ROWS = 20_000

# What a fetched row is; the numbers order nothing.
_OP, _NODE, _MODULE, _BACKWARD, _FRAME, _PART, _RECOMPUTE, _RANGE, _SPAN = range(9)
_KINDS = {
    "op": _OP,
    "node": _NODE,
    "module": _MODULE,
    "backward": _BACKWARD,
    "frame": _FRAME,
    "part": _PART,
    "recompute": _RECOMPUTE,
    "range": _RANGE,
    "span": _SPAN,
}
_FORWARD, _BACKWARD_PHASE, _RECOMPUTE_PHASE, _OPTIMIZER = 1, 2, 3, 4

# Bits of the last column of a fetched row; the rest of it is the marker's number, 0 for a launch.
_HAS_SEQUENCE, _IS_WANTED, _IS_NODE = 1, 2, 4
_BITS = 3

# Bits of how something runs: again, for the backward pass; inside of an op with a sequence number,
# which is recorded where grad mode is on: so in forward, outside of autograd's nodes.
_AGAIN, _IN_GRAD_MODE = 1, 2

# A module by the number of its class (`LlamaDecoderLayer_3`), and one by its qualified name.
_LAYER_CLASS = re.compile(r"(?:Layer|Block)_(\d+)$")
_NO_LAYER = re.compile(r"Linear|Norm|Embedding|Attention|MLP|Conv|Dropout|RowParallel|Pool")
_INSTANCE = re.compile(r"(.+)_(\d+)$")
_LAYER_NUMBER = re.compile(r"(?:^|[./])(\d+)(?=[./]|$)")
_NUMBER = re.compile(r"\d+")
# In the name of a range, digits inside a word (all2all) are no number of a layer.
_NUMBER_ALONE = re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")

_SPANS = f"""
WITH span AS (
    SELECT
        e.trace_id, e.pid, e.tid, e.event_id, e.ts_ns, e.ts_ns + e.dur_ns AS end_ns,
        CASE WHEN is_python_call(e.category) THEN 0 WHEN is_annotation(e.category) THEN 1 ELSE 2 END
            AS layer,
        (m.marker_id::BIGINT << {_BITS})
            + CASE WHEN e.sequence_number IS NULL THEN 0 ELSE {_HAS_SEQUENCE} END
            + CASE
                WHEN e.trace_id NOT IN (SELECT trace_id FROM accelerator WHERE accelerator = 'cpu')
                    THEN 0
                WHEN is_op(e.category) OR m.row_name = '(communication)' THEN {_IS_WANTED}
                ELSE 0
            END
            + CASE WHEN e.forward_thread > 0 THEN {_IS_NODE} ELSE 0 END AS marker
    FROM event AS e
    INNER JOIN range_marker AS m ON e.category = m.category AND e.name = m.name
    UNION ALL
    SELECT trace_id, pid, tid, launch_id, ts_ns, end_ns, 3, 0
    FROM launch
    WHERE correlation IS NOT NULL
)

SELECT trace_id, pid, tid, event_id, ts_ns, end_ns, marker
FROM span
ORDER BY trace_id, pid, tid, ts_ns, end_ns DESC, layer, event_id
"""

_MARKERS = """
SELECT
    marker_id, means, phase, row_name, is_weak, layer, label, module_class,
    is_python_call(category) AS is_call, is_op(category) AS is_op, name LIKE 'tk/%' AS is_own
FROM range_marker
ORDER BY marker_id
"""

# Traces whose ranges name modules: those are trusted more than the Python calls of nn.Modules.
_QUALIFIED = """
SELECT DISTINCT e.trace_id
FROM event AS e
INNER JOIN range_marker AS m ON e.category = m.category AND e.name = m.name
WHERE m.means = 'module' AND is_annotation(m.category)
"""


# What encloses a moment of a thread: op, module, node, how, phase, row, range, hint, part. How is
# made of the two bits below. A plain tuple, because one is made for every op. Modules, ranges and
# hints are numbers of the trace's walk.
_Context = tuple[
    int | None,
    int | None,
    int | None,
    int,
    int,
    int,
    int | None,
    int | None,
    int | None,
]
_OUTSIDE: _Context = (None, None, None, 0, 0, 0, None, None, None)


@dataclass(frozen=True, slots=True)
class _Marker:
    kind: int
    phase: int
    row: int
    label: str
    module_class: str | None
    layer: str | None
    source: str
    is_qualified: bool
    is_op: bool = False


@dataclass(slots=True)
class _Module:
    parent: int | None
    label: str
    module_class: str | None
    source: str
    is_qualified: bool
    is_inside_node: bool


@dataclass(slots=True)
class _TraceModules:
    """The modules of one trace, numbered in the order in which they were met."""

    trace_id: int
    ignores_calls: bool
    modules: list[_Module] = field(default_factory=list)
    numbers: dict[tuple[int | None, str, str], int] = field(default_factory=dict)
    next_layer: int = 0

    def number(
        self,
        parent: int | None,
        label: str,
        marker: _Marker,
        *,
        source: str,
        is_inside_node: bool = False,
    ) -> int:
        """Return the number of a module, a new one at its first call."""
        key = (None if marker.is_qualified else parent, source, label)
        number = self.numbers.get(key)
        if number is None:
            if len(self.modules) >= MAX_MODULES and parent is not None:
                return parent
            number = self.numbers[key] = len(self.modules)
            self.modules.append(
                _Module(
                    None if marker.is_qualified else parent,
                    label,
                    marker.module_class,
                    source,
                    marker.is_qualified,
                    is_inside_node,
                )
            )
        return number


def walk_contexts(connection: duckdb.DuckDBPyConnection, folder: Path | None = None) -> None:
    """Fill the tables ``walked`` and ``walked_module`` of the database ``scratch``.

    Args:
        connection: the store that is being built; what :data:`REQUIRES` names is there.
        folder: for temporary files; one of the system's if None.
    """
    markers, rows = _read_markers(connection)
    qualified: set[int] = set()
    if any(marker.kind == _MODULE and marker.is_qualified for marker in markers):
        qualified = {trace_id for (trace_id,) in connection.execute(_QUALIFIED).fetchall()}
    with tempfile.TemporaryDirectory(prefix="walk", dir=folder) as work:
        contexts, modules = Path(work) / "contexts.json", Path(work) / "modules.json"
        with contexts.open("wb") as context_file, modules.open("wb") as module_file:
            walk = _Walk(markers, qualified, context_file, module_file)
            connection.execute(_SPANS)
            while chunk := connection.fetchmany(_CHUNK_ROWS):
                walk.feed(chunk)
            walk.end_trace()
        _load(connection, contexts, modules, rows)


def drop_walk(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop the tables of the walk."""
    for table in TABLES:
        connection.execute(f"DROP TABLE scratch.{table}")


def _read_markers(connection: duckdb.DuckDBPyConnection) -> tuple[list[_Marker], list[str]]:
    """Return the markers by number (0 is no marker), and the names of rows by number from 1."""
    markers = [_Marker(_SPAN, 0, 0, "", None, None, "", is_qualified=False)]
    rows: list[str] = []
    for found in connection.execute(_MARKERS).fetchall():
        _, means, phase, row_name, is_weak, layer, label, module_class, is_call, is_op, is_own = (
            found
        )
        row = 0
        if row_name is not None:
            if row_name not in rows:
                rows.append(row_name)
            row = rows.index(row_name) + 1
        kind = _KINDS[means]
        source = "range"
        if kind == _FRAME:
            source = "frame"
        elif is_call:
            source = "nn.Module"
        elif is_own:
            source = "tk"
        markers.append(
            _Marker(
                kind,
                PHASES.index(phase) + 1 if phase else 0,
                -row if is_weak else row,
                label,
                module_class,
                layer,
                source,
                is_qualified=kind in (_MODULE, _BACKWARD) and not is_call,
                is_op=is_op,
            )
        )
    return markers, rows


class _Walk:
    """One pass over the spans of all threads of all traces, fed in chunks."""

    def __init__(
        self,
        markers: list[_Marker],
        qualified: set[int],
        context_file: IO[bytes],
        module_file: IO[bytes],
    ) -> None:
        self._markers = markers
        self._qualified = qualified
        self._context_file = context_file
        self._module_file = module_file
        self._stack: list[tuple[int, _Context]] = []
        self._thread: tuple[int, int] | None = None
        self._trace: _TraceModules | None = None

    def feed(self, rows: list[tuple[int, int, int, int, int, int, int]]) -> None:
        """Take the next spans, in order."""
        stack, markers = self._stack, self._markers
        pid_now, tid_now = self._thread or (None, None)
        trace = self._trace
        out: list[tuple[int | None, ...]] = []
        for trace_id, pid, tid, event_id, start, end, bits in rows:
            if tid != tid_now or pid != pid_now or trace is None or trace_id != trace.trace_id:
                pid_now, tid_now = pid, tid
                stack.clear()
                if trace is None or trace_id != trace.trace_id:
                    self.end_trace()
                    trace = self._trace = _TraceModules(trace_id, trace_id in self._qualified)
            context = _OUTSIDE
            while stack and stack[-1][0] <= start:
                stack.pop()
            while stack and stack[-1][0] < end:
                # A hook begins a backward range inside of one autograd node and ends it inside of
                # another: it is a hint, and no end of the node.
                if end - stack[-1][0] <= ROUNDING_NS or markers[bits >> _BITS].kind == _BACKWARD:
                    end = stack[-1][0]
                    break
                stack.pop()
            if stack:
                context = stack[-1][1]
            if not bits:
                out.append((trace_id, event_id, *context))
                continue
            marker = markers[bits >> _BITS]
            kind = marker.kind
            if kind == _OP and not bits & _IS_NODE:
                _, module, node, how, phase, row, span, hint, part = context
                if bits & _HAS_SEQUENCE:
                    how |= _IN_GRAD_MODE
                    # Grad mode is off in backward: only recomputation has numbers there.
                    # What hooks do when a gradient is there, with grad mode on, is none of it.
                    if node is not None and row <= 0:
                        how |= _AGAIN
                context = (event_id, module, node, how, phase, row, span, hint, part)
            else:
                context = _inside(context, marker, event_id, bits, trace)
            if bits & (_HAS_SEQUENCE | _IS_WANTED):
                out.append((trace_id, event_id, *context))
            if end > start:
                stack.append((end, context))
        self._thread = None if pid_now is None or tid_now is None else (pid_now, tid_now)
        if out:
            text = msgspec.json.encode(out)
            self._context_file.write(text[1:-1].replace(b"],[", b"]\n["))
            self._context_file.write(b"\n")

    def end_trace(self) -> None:
        """Write the modules of the trace that was walked last."""
        if self._trace is not None:
            for row in _finished(self._trace):
                self._module_file.write(msgspec.json.encode(row) + b"\n")
        self._trace = None


def _inside(
    around: _Context, marker: _Marker, event_id: int, bits: int, trace: _TraceModules
) -> _Context:
    """Return the context inside of a span that means something."""
    op, module, node, how, phase, row, span, hint, part = around
    kind = marker.kind
    if bits & _IS_NODE or kind == _NODE:
        # The outermost node of a nest counts, unless an inner one has a number of its own.
        op = event_id
        is_outermost = node is None
        if is_outermost:
            module = span = hint = part = None
        if is_outermost or bits & _HAS_SEQUENCE:
            node = event_id
            row = row if phase == _OPTIMIZER else 0
        if phase not in (_RECOMPUTE_PHASE, _OPTIMIZER):
            phase = _BACKWARD_PHASE
        if marker.row > 0:
            row, module = marker.row, None
    elif kind == _MODULE:
        if not (trace.ignores_calls and not marker.is_qualified):
            if node is not None or marker.phase == _RECOMPUTE_PHASE:
                how |= _AGAIN
            module = trace.number(
                module,
                marker.label,
                marker,
                source=marker.source,
                is_inside_node=module is None and node is not None,
            )
            row = 0
            phase = marker.phase or phase
    elif kind == _FRAME:
        phase = marker.phase or phase
        if marker.layer == "begin":
            trace.next_layer = 0
        if module is None or trace.modules[module].module_class != marker.module_class:
            label = marker.label
            if marker.layer == "next":
                label = f"{label}.{trace.next_layer}"
                trace.next_layer += 1
            module = trace.number(module, label, marker, source="frame")
            row = 0
    elif kind == _BACKWARD:
        hint = trace.number(None, marker.label, marker, source=marker.source)
    elif kind == _PART:
        part = bits >> _BITS
    elif kind == _RECOMPUTE:
        how |= _AGAIN
    else:
        if kind == _RANGE:
            span = trace.number(span, marker.label, marker, source="range")
        if marker.is_op or bits & _IS_WANTED:
            op = event_id
            if bits & _HAS_SEQUENCE:
                how |= _IN_GRAD_MODE
        if marker.phase and (kind == _RANGE or marker.phase != _BACKWARD_PHASE or not phase):
            phase = marker.phase
        if marker.row > 0:
            row, module = marker.row, None
        elif marker.row < 0 and not row:
            row = marker.row
    return (op, module, node, how, phase, row, span, hint, part)


def _finished(trace: _TraceModules) -> list[tuple[Any, ...]]:
    """Return the rows of table walked_module for one trace."""
    modules = trace.modules
    same = _graft(modules)
    parents = [module.parent for module in modules]
    for number, module in enumerate(modules):
        parent = module.parent
        parents[number] = None if parent is None else same.get(parent, parent)
    paths_of = {
        module.label: number for number, module in enumerate(modules) if module.is_qualified
    }
    order = _siblings(modules, parents, same)
    rows: list[tuple[Any, ...]] = []
    paths, rolled = ModulePaths(), ModulePaths()
    layers: list[int | None] = [None] * len(modules)
    depths = [0] * len(modules)
    in_order = _by_depth(modules, parents, paths_of)
    spans = _tree_spans(parents, same)
    for number in in_order:
        module, parent = modules[number], parents[number]
        if module.is_qualified:
            path = paths.add(number, module.label)
            rollup = _LAYER_NUMBER.sub(lambda m: m[0].replace(m[1], "*"), path)
            rollup = rolled.add(number, rollup)
            found = _LAYER_NUMBER.search(path)
            layer = _layer_number(found[1]) if found else None
        else:
            path = paths.add(number, module.label, parent)
            layer, name = _layer_of(module, None if parent is None else layers[parent])
            if name is None:
                name = order.get(number, module.label)
            rollup = rolled.add(number, name, parent)
        layers[number] = layer
        depths[number] = 0 if parent is None else depths[parent] + 1
        if number not in same:
            rows.append(
                (
                    trace.trace_id,
                    number,
                    number,
                    parent,
                    module.label,
                    module.module_class,
                    path,
                    depths[number],
                    layer,
                    module.source,
                    rollup,
                    *spans[number],
                )
            )
    rows.extend((trace.trace_id, number, target, *[None] * 10) for number, target in same.items())
    return rows


def _tree_spans(parents: list[int | None], same: dict[int, int]) -> dict[int, tuple[int, int]]:
    """Return the place of each module in the tree from the top, and of the last one inside."""
    children: dict[int | None, list[int]] = {}
    for number, parent in enumerate(parents):
        if number not in same:
            children.setdefault(parent, []).append(number)
    spans: dict[int, tuple[int, int]] = {}
    position = 0
    waiting = [(root, False) for root in reversed(children.get(None, []))]
    while waiting:
        number, is_done = waiting.pop()
        if is_done:
            spans[number] = (spans[number][0], position - 1)
            continue
        spans[number] = (position, position)
        position += 1
        waiting.append((number, True))
        waiting.extend((child, False) for child in reversed(children.get(number, [])))
    return spans


def _graft(modules: list[_Module]) -> dict[int, int]:
    """Return which modules are others met again: recomputation begins inside of a call's tree.

    In recomputation a module is called from the autograd engine and so begins a chain of its own.
    It is the module of the one forward chain that ends in the same instance.
    """
    forward: dict[str, list[int]] = {}
    children: dict[tuple[int | None, str], int] = {}
    for number, module in enumerate(modules):
        if module.source == "nn.Module" and not module.is_inside_node:
            forward.setdefault(module.label, []).append(number)
            children[module.parent, module.label] = number
    same: dict[int, int] = {}
    for number, module in enumerate(modules):
        if module.source != "nn.Module":
            continue
        if module.is_inside_node:
            candidates = forward.get(module.label, ())
            if len(candidates) == 1:
                same[number] = candidates[0]
        elif module.parent in same:
            twin = children.get((same[module.parent], module.label))
            if twin is not None:
                same[number] = twin
            else:
                children[same[module.parent], module.label] = number
    return same


def _siblings(
    modules: list[_Module], parents: list[int | None], same: dict[int, int]
) -> dict[int, str]:
    """Return names without the numbers of instances: `Linear[1]` is its parent's second one."""
    families: dict[tuple[int | None, str], list[tuple[int, str, int]]] = {}
    for number, module in enumerate(modules):
        found = _INSTANCE.fullmatch(module.label) if module.source == "nn.Module" else None
        if found and number not in same:
            # Numbers in their order, of any length.
            digits = found[2].lstrip("0")
            families.setdefault((parents[number], found[1]), []).append(
                (len(digits), digits, number)
            )
    names = {}
    for (_, module_class), members in families.items():
        for position, (_, _, number) in enumerate(sorted(members)):
            names[number] = module_class if len(members) == 1 else f"{module_class}[{position}]"
    return names


def _layer_number(digits: str) -> int | None:
    """Return the number of a layer; a number that is too long for one is none."""
    return int(digits) if len(digits) < 10 else None


def _layer_of(module: _Module, above: int | None) -> tuple[int | None, str | None]:
    """Return the layer of a module without a qualified name; its rolled-up name if it is one."""
    if module.source == "frame":
        found = _LAYER_NUMBER.search(module.label)
        return (_layer_number(found[1]), _NUMBER.sub("*", module.label)) if found else (above, None)
    if module.source == "range":
        return above, _NUMBER_ALONE.sub("*", module.label)
    if above is None and not _NO_LAYER.search(module.label):
        found = _LAYER_CLASS.search(module.label)
        if found:
            return _layer_number(found[1]), f"{module.label[: found.start(1)]}*"
    return above, None


def _by_depth(
    modules: list[_Module], parents: list[int | None], paths_of: dict[str, int]
) -> list[int]:
    """Return the modules with each behind its parent; sets the parents of qualified ones."""
    # Sorted by their parts, each path has those inside of it behind it.
    around: list[str] = []
    for path in sorted(paths_of, key=lambda path: path.split(".")):
        while around and not path.startswith(f"{around[-1]}."):
            around.pop()
        if around:
            parents[paths_of[path]] = paths_of[around[-1]]
        around.append(path)
    order: list[int] = []
    seen: set[int] = set()
    for start in range(len(modules)):
        chain = []
        step: int | None = start
        while step is not None and step not in seen:
            seen.add(step)
            chain.append(step)
            step = parents[step]
        order.extend(reversed(chain))
    return order


def _load(
    connection: duckdb.DuckDBPyConnection, contexts: Path, modules: Path, rows: list[str]
) -> None:
    """Make the tables of the walk from the files."""
    phases = "[" + ", ".join(map(quote, PHASES)) + "]"
    names = "[" + ", ".join(map(quote, rows)) + "]::VARCHAR[]"
    connection.execute(
        "CREATE OR REPLACE TABLE scratch.walked AS SELECT j[1]::INTEGER AS trace_id, "
        "j[2] AS event_id, j[3] AS op_id, j[4] AS module_number, j[5] AS node_id, "
        f"j[6] & {_AGAIN} > 0 AS is_recompute, j[6] & {_IN_GRAD_MODE} > 0 AS is_in_grad_mode, "
        f"({phases})[j[7]] AS phase, ({names})[abs(j[8])] AS row_name, j[8] < 0 AS is_weak_row, "
        "j[9] AS range_number, j[10] AS hint_number, j[11] AS part_id "
        f"FROM read_json({quote(str(contexts))}, format = 'newline_delimited', records = false, "
        "columns = {j: 'BIGINT[]'})"
        if contexts.stat().st_size
        else "CREATE OR REPLACE TABLE scratch.walked (trace_id INTEGER, event_id BIGINT, "
        "op_id BIGINT, module_number BIGINT, node_id BIGINT, is_recompute BOOLEAN, "
        "is_in_grad_mode BOOLEAN, phase VARCHAR, "
        "row_name VARCHAR, is_weak_row BOOLEAN, range_number BIGINT, hint_number BIGINT, "
        "part_id BIGINT)"
    )
    columns = (
        *("trace_id BIGINT", "number BIGINT", "module_id BIGINT", "parent_id BIGINT"),
        *("name VARCHAR", "class VARCHAR", "path VARCHAR", "depth BIGINT", "layer BIGINT"),
        *("source VARCHAR", "rollup_path VARCHAR", "position BIGINT", "last_position BIGINT"),
    )
    picked = ", ".join(
        f"j[{position}]::{column.split()[1]} AS {column.split()[0]}"
        for position, column in enumerate(columns, start=1)
    )
    connection.execute(
        f"CREATE OR REPLACE TABLE scratch.walked_module AS SELECT {picked} "
        f"FROM read_json({quote(str(modules))}, format = 'newline_delimited', records = false, "
        "columns = {j: 'VARCHAR[]'})"
        if modules.stat().st_size
        else f"CREATE OR REPLACE TABLE scratch.walked_module ({', '.join(columns)})"
    )
