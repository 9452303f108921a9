"""Output formats for results, one module per format.

The module of a format has a function

    def render(data: Result | Mapping[str, Result], stream: TextIO, *, full: bool, units: bool,
               wide: bool) -> None

where a mapping is a breakdown by analysis name. `full` shows all rows of a breakdown instead of one
screen. `units` shows times, sizes, and rates in readable units. `wide` shows all columns regardless
of the terminal width. Formats for programs (json, csv) ignore all three: they write all rows and
columns in base units.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TextIO

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


FORMATS = ("brief", "csv", "csv_plain", "json", "markdown", "table")
"""Names of the output formats. `csv_plain` is CSV without protection against formulas."""


def renderer(name: str) -> Renderer:
    """Return the render function of a format."""
    if name == "csv_plain":
        return partial(renderer("csv"), keeps_formulas=True)  # type: ignore[call-arg]
    render: Renderer = import_module(f"{__name__}.{name}").render
    return render
