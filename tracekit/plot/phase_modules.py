"""The tree of modules as an icicle: as wide as their time, within those around them. By phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracekit.palette import PHASE
from tracekit.plot._encoding import colours
from tracekit.plot._icicle import icicle

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot._chart import Chart

NEEDS = ("module_icicle",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without modules."""
    title = "In which modules the time was spent, by phase"
    return icicle(data, "phases", "phase_modules", title, _of_phase)


def _of_phase(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    found = {row["phase"]: PHASE.get(row["phase"], PHASE["other"]) for row in rows}
    return colours("phase", found)
