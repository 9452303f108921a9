"""The rows of `split`, summed over devices before they reach Python: so memory knows no ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.analysis.catalog import load_catalog

if TYPE_CHECKING:
    from tracekit.trace import Trace

AFTER_LAST_WORK = "after_last_work"
"""The cause of idle time that lies behind the last work of a device, so outside of its window."""

Device = tuple[int | None, str]
"""A device of a run: its rank, and its number there."""

Key = tuple[str, str, str, str, str | None, str | None, str | None]
"""Part, class, phase, module, op, shape and name: what a cell is of."""

_SUMMED = """
WITH split AS MATERIALIZED (SELECT row_number() OVER () AS place, * FROM ({split}))
SELECT
    min(place) AS place,
    step, part, class, phase, module_path, op, shape, name,
    NULL AS rank, NULL AS device,
    sum(kernel_count)::BIGINT, sum(kernel_ns)::BIGINT, sum(wall_ns)::BIGINT
FROM split
GROUP BY step, part, class, phase, module_path, op, shape, name
UNION ALL
SELECT
    NULL, step, NULL, if(bool_and(class = '{after}'), '{after}', NULL), NULL, NULL, NULL, NULL,
    NULL, rank, device, NULL, NULL, NULL
FROM split
GROUP BY step, rank, device
ORDER BY place NULLS LAST
"""


@dataclass(frozen=True, slots=True)
class SplitRow:
    """One cell of one step, over all devices."""

    step: int | None
    key: Key
    kernel_count: int
    kernel_ns: int
    wall_ns: int


@dataclass(frozen=True, slots=True)
class SplitRows:
    """What one run consists of, and which devices there are in each step.

    `idle_only` are those that have nothing in the step but idle time behind their last work.
    """

    rows: Sequence[SplitRow]
    devices: Sequence[tuple[int | None, Device]]
    idle_only: frozenset[tuple[int | None, Device]]


def split_rows(trace: Trace) -> SplitRows:
    """Ask a run for what each step consists of, over all devices.

    Rows are in the order in which `split` first has them.

    Args:
        trace: the run, open.

    Raises:
        QueryError: there is no trace.
    """
    ((has_traces,),) = trace.sql("SELECT EXISTS (FROM trace)")
    if not has_traces:
        trace.query("split")  # which says what is missing
    statement = load_catalog().analyses["split"].sql.strip().rstrip(";")
    rows: list[SplitRow] = []
    devices: list[tuple[int | None, Device]] = []
    idle_only: set[tuple[int | None, Device]] = set()
    for place, step, *rest in trace.sql(_SUMMED.format(split=statement, after=AFTER_LAST_WORK)):
        if place is not None:
            part, class_name, phase, module, op, shape, name, _, _, *sums = rest
            key = (part, class_name, phase, module, op, shape, name)
            rows.append(SplitRow(step, key, *sums))
        else:
            device = step, (rest[7], rest[8])
            devices.append(device)
            if rest[1] is not None:
                idle_only.add(device)
    return SplitRows(rows, devices, frozenset(idle_only))
