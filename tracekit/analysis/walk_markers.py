"""What the names of ranges, calls and ops mean for the walk: table ``range_marker``, in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.analysis.rules import PHASES

if TYPE_CHECKING:
    import duckdb

# What a fetched row is; the numbers order nothing.
OP, NODE, MODULE, BACKWARD, FRAME, PART, RECOMPUTE, RANGE, SPAN, DERIVATIVE = range(10)
_KINDS = {
    "op": OP,
    "node": NODE,
    "derivative": DERIVATIVE,
    "module": MODULE,
    "backward": BACKWARD,
    "frame": FRAME,
    "part": PART,
    "recompute": RECOMPUTE,
    "range": RANGE,
    "span": SPAN,
}

PHASE_BITS = 4
"""What told a phase is one number: the marker's, and in so many bits below it the phase's."""

_NUMBERS = {phase: number for number, phase in enumerate(PHASES, start=1)}
_PHASE = (1 << PHASE_BITS) - 1

_MARKERS = r"""
SELECT
    marker_id, means, phase, row_name IS NOT NULL, is_weak, layer, label, module_class,
    is_python_call(category) AS is_call, is_op(category) AS is_op, name LIKE 'tk/%' AS is_own,
    regexp_matches(name, 'Backward\d+$') AS is_generated,
    is_annotation(category) AND row_name = '(communication)' AS is_collective,
    means = 'node' AND NOT regexp_matches(name, 'autograd::') AS is_bare_node
FROM range_marker
ORDER BY marker_id
"""


@dataclass(frozen=True, slots=True)
class Marker:
    """What a name means: its kind, and the module that it names.

    `told` is 0 where it tells no phase; `row` is its number if it tells a row of modules, negative
    if a weak one, else 0. `is_generated` is of nodes whose code torch generated, `is_collective` of
    ranges of collectives: an asynchronous one encloses what others do meanwhile. `is_bare_node` is
    of names that tell a node only where a trace has no sequence numbers: forward ops may have such.
    """

    kind: int
    told: int
    row: int
    label: str
    module_class: str | None
    layer: str | None
    source: str
    is_qualified: bool
    is_op: bool = False
    is_generated: bool = False
    is_collective: bool = False
    is_bare_node: bool = False


def tells(told: int, phase: str) -> bool:
    """Return whether what told a phase, if anything did, told this one."""
    return told & _PHASE == _NUMBERS[phase]


def read_markers(connection: duckdb.DuckDBPyConnection) -> list[Marker]:
    """Return the markers by number; 0 is no marker."""
    markers = [Marker(SPAN, 0, 0, "", None, None, "", is_qualified=False)]
    connection.execute(_MARKERS)
    for found in connection.fetchall():
        number, means, phase, has_row, is_weak, layer, label, *rest = found
        module_class, is_call, is_op, is_own, is_generated, is_collective, is_bare = rest
        row = number if has_row else 0
        kind = _KINDS[means]
        source = "range"
        if kind == FRAME:
            source = "frame"
        elif is_call:
            source = "nn.Module"
        elif is_own:
            source = "tk"
        markers.append(
            Marker(
                kind,
                number << PHASE_BITS | _NUMBERS[phase] if phase else 0,
                -row if is_weak else row,
                label,
                module_class,
                layer,
                source,
                is_qualified=kind in (MODULE, BACKWARD) and not is_call,
                is_op=is_op,
                is_generated=is_generated,
                is_collective=bool(is_collective),
                is_bare_node=is_bare,
            )
        )
    return markers
