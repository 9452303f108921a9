"""Baselines as tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tracekit.analysis.result import Column, Result
from tracekit.checking.baseline import Baseline


def baseline_list(baselines: Sequence[Baseline]) -> Result:
    """Return one row for each baseline: what it is of, and how long a unit of it took.

    Args:
        baselines: as they were read.
    """
    columns = (
        *(Column(name, "VARCHAR") for name in ("name", "run", "created_at", "per")),
        Column("sample_count", "BIGINT"),
        Column("median_ns", "DOUBLE"),
    )
    rows = [
        (
            *(one.name, one.side.label, one.created_at, one.side.per),
            len(one.side.sample_units),
            median(one.side.series(one.side.cells)),
        )
        for one in baselines
    ]
    return Result("baselines", columns, rows)


def baseline_rows(baseline: Baseline) -> Result:
    """Return what is kept of a run: its time by place, the most first, ns per unit.

    Args:
        baseline: as it was read.
    """
    columns = (
        *(Column(name, "VARCHAR") for name in ("part", "class", "phase", "module_path", "op")),
        Column("kernel_count", "DOUBLE"),
        Column("kernel_ns", "DOUBLE"),
        Column("wall_ns", "DOUBLE"),
    )
    side = baseline.side
    rows = [
        (
            *(cell.part, cell.class_name, cell.phase, cell.module, cell.op),
            cell.kernel_count / side.unit_count,
            cell.kernel_ns / side.unit_count,
            cell.wall_ns / side.unit_count,
        )
        for cell in sorted(side.cells, key=lambda one: -one.wall_ns)
    ]
    return Result("baseline", columns, rows)
