"""Show results: one output format per file, named after it and found by being there.

A format is a module here without a leading underscore; it has

    def render(data: Result | Mapping[str, Result], stream: TextIO, *, full: bool, units: bool,
               wide: bool) -> None

where a mapping is a breakdown (analysis name to result). `full` shows every row of a breakdown that
is otherwise cut to one screen; `units` shows times, sizes and rates in readable units where text is
made for people; `wide` shows every column, however wide the terminal is. Formats for programs
(json, csv) ignore all three: they hold every row and column in base units.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Protocol, TextIO

from tracekit.errors import UsageError

if TYPE_CHECKING:
    from tracekit.analysis.result import Result


class Renderer(Protocol):
    """What every format module's `render` is."""

    def __call__(
        self,
        data: Result | Mapping[str, Result],
        stream: TextIO,
        *,
        full: bool = False,
        units: bool = True,
        wide: bool = False,
    ) -> None:
        """Write the data to the stream."""
        ...


def formats() -> tuple[str, ...]:
    """Return the names of the output formats; no format is loaded for it."""
    names = (module.name for module in iter_modules(__path__) if not module.ispkg)
    return tuple(sorted(name for name in names if not name.startswith("_")))


def renderer(name: str) -> Renderer:
    """Return the render function of a format.

    Raises:
        UsageError: there is no such format.
    """
    if name not in formats():
        raise UsageError(f"unknown format {name!r}", hint="formats: " + ", ".join(formats()))
    render: Renderer = import_module(f"{__name__}.{name}").render
    return render
