"""The breakdown as one screen: the sections of `sections/`, one below the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render.sections import sections

if TYPE_CHECKING:
    from tracekit.analysis.result import Result


def breakdown_lines(
    data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False
) -> Iterator[Text]:
    """Return the lines of the screen.

    Args:
        data: analysis name to result.
        width: the most cells that a line may take.
        full: show every row instead of the top ones.
        wide: show every column of the tables that `full` shows, however wide.
    """
    is_first = True
    for section in sections():
        lines = section.lines(data, width, full=full, wide=wide)
        if lines and not is_first:
            yield Text()
        yield from lines
        is_first = is_first and not lines
