"""What the names of ranges, calls and ops mean for the walk: table ``range_marker``, in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.analysis.range_rules import PHASES

if TYPE_CHECKING:
    import duckdb

# What a fetched row is; the numbers order nothing.
OP, NODE, MODULE, BACKWARD, FRAME, PART, RECOMPUTE, RANGE, SPAN = range(9)
_KINDS = {
    "op": OP,
    "node": NODE,
    "module": MODULE,
    "backward": BACKWARD,
    "frame": FRAME,
    "part": PART,
    "recompute": RECOMPUTE,
    "range": RANGE,
    "span": SPAN,
}
FORWARD, BACKWARD_PHASE, RECOMPUTE_PHASE, OPTIMIZER = 1, 2, 3, 4

_MARKERS = """
SELECT
    marker_id, means, phase, row_name, is_weak, layer, label, module_class,
    is_python_call(category) AS is_call, is_op(category) AS is_op, name LIKE 'tk/%' AS is_own
FROM range_marker
ORDER BY marker_id
"""


@dataclass(frozen=True, slots=True)
class Marker:
    """What a name means: its kind, phase and row (0 for none, negative for a weak one), its module."""

    kind: int
    phase: int
    row: int
    label: str
    module_class: str | None
    layer: str | None
    source: str
    is_qualified: bool
    is_op: bool = False


def read_markers(connection: duckdb.DuckDBPyConnection) -> tuple[list[Marker], list[str]]:
    """Return the markers by number (0 is no marker), and the names of rows by number from 1."""
    markers = [Marker(SPAN, 0, 0, "", None, None, "", is_qualified=False)]
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
        if kind == FRAME:
            source = "frame"
        elif is_call:
            source = "nn.Module"
        elif is_own:
            source = "tk"
        markers.append(
            Marker(
                kind,
                PHASES.index(phase) + 1 if phase else 0,
                -row if is_weak else row,
                label,
                module_class,
                layer,
                source,
                is_qualified=kind in (MODULE, BACKWARD) and not is_call,
                is_op=is_op,
            )
        )
    return markers, rows
