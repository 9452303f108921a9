"""The sections of the breakdown screen: one per file, found by being there.

A section is a module here without a leading underscore; it has

    ORDER: int      its place on the screen, small numbers first; leave gaps
    def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool) -> list[Text]

`data` is the whole breakdown, analysis name to result. A section returns no line when its analysis
is not there or has no row: what the trace cannot support is said by `health`, not drawn as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from rich.text import Text

    from tracekit.analysis.result import Result


DRAWINGS = ("latency_cdf",)
"""Sections that are also shown above the table of their analysis."""

IN_PLACE = ("bench_gemm", "bench_memcpy", "bench_collectives", "bench_launches")
"""Sections in place of the table of their analysis, whose columns fit on no screen."""


class Section(Protocol):
    """What every section module is."""

    ORDER: int

    def lines(
        self, data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False
    ) -> list[Text]:
        """Return the lines, each at most `width` cells.

        `full` lifts the limits on rows, `wide` those on the columns of the tables then.
        """
        ...


def drawing(data: Result, width: int) -> list[Text]:
    """Return what is shown above the table of an analysis: nothing of most."""
    return _alone(data, width) if data.name in DRAWINGS else []


def in_place(data: Result, width: int) -> list[Text]:
    """Return what is shown in place of the table of an analysis: nothing of most."""
    return _alone(data, width) if data.name in IN_PLACE else []


def _alone(data: Result, width: int) -> list[Text]:
    section = cast("Section", import_module(f"{__name__}.{data.name}"))
    return section.lines({data.name: data}, width, full=True)


def sections() -> list[Section]:
    """Return the sections in the order of the screen."""
    names = [module.name for module in iter_modules(__path__) if not module.name.startswith("_")]
    found = [cast("Section", import_module(f"{__name__}.{name}")) for name in names]
    return sorted(found, key=lambda section: section.ORDER)
