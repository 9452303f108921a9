"""The tree of modules as an icicle: as wide as their time, within those around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import SKY
from tracekit.plot._icicle import icicle

if TYPE_CHECKING:
    from tracekit.analysis.result import Result
    from tracekit.plot._chart import Chart

NEEDS = ("module_icicle",)


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without modules."""
    title = "In which modules the time was spent"
    return icicle(data, "modules", "modules", title, lambda _: {"value": SKY.light})
