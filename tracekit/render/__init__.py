"""Output formats for results, one module per format.

Each module here without a leading underscore is a format of that name. It has a function

    def render(data: Result | Mapping[str, Result], stream: TextIO, *, full: bool, units: bool,
               wide: bool) -> None

where a mapping is a breakdown by analysis name. `full` shows all rows of a breakdown instead of one
screen. `units` shows times, sizes, and rates in readable units. `wide` shows all columns regardless
of the terminal width. Formats for programs (json, csv) ignore all three: they write all rows and
columns in base units.
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
    """The signature of `render` in every format module."""

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
    """Return the names of the output formats without loading them."""
    names = (module.name for module in iter_modules(__path__) if not module.ispkg)
    return tuple(sorted(name for name in names if not name.startswith("_")))


def renderer(name: str) -> Renderer:
    """Return the render function of a format."""
    if name not in formats():
        raise UsageError(f"unknown format {name!r}", hint="formats: " + ", ".join(formats()))
    render: Renderer = import_module(f"{__name__}.{name}").render
    return render
