"""A text table for terminals and pipes. A breakdown is one screen of sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TextIO

from rich.text import Text

from tracekit.analysis.breakdown import HEALTH
from tracekit.analysis.result import Result
from tracekit.render._console import make_console, print_lines
from tracekit.render._grid import grid_lines
from tracekit.render.sections import SECTIONS
from tracekit.render.sections.trace import problems


def render(
    data: Result | Mapping[str, Result],
    stream: TextIO,
    *,
    full: bool = False,
    units: bool = True,
    wide: bool = False,
) -> None:
    """Write a result as a table, or a breakdown as one screen."""
    console = make_console(stream)
    width = console.width
    if isinstance(data, Mapping):
        print_lines(console, breakdown_lines(data, width, full=full, wide=wide))
        return
    if data.name == HEALTH and {"rank", "severity"} <= set(data.column_names) and not wide:
        result = problems(data)
        passed = f"{len(data) - len(result):,} other checks passed (--wide lists them)"
        print_lines(
            console, [*(grid_lines(result, width, units=units) if result else ()), Text(passed)]
        )
        return
    drawn = []
    section = SECTIONS.get(data.name)
    if section is not None and section.alone:
        drawn = section.lines({data.name: data}, width, full=True)
        print_lines(console, drawn)
    if not (drawn and section is not None and section.alone == "instead"):
        print_lines(console, [Text()] if drawn else [])
        print_lines(console, grid_lines(data, None if wide else width, units=units))


def breakdown_lines(
    data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False
) -> Iterator[Text]:
    """Yield the lines of the screen: its sections, separated by empty lines."""
    before = ""
    for name, section in SECTIONS.items():
        lines = section.lines(data, width, full=full, wide=wide)
        if lines and before not in ("", section.follows):
            yield Text()
        yield from lines
        before = name if lines else before


def width_of(stream: TextIO) -> int:
    """Return the line width of a stream, in terminal cells."""
    return make_console(stream).width
