"""The lines of a SQL header, and how they make fields and entries; what they say is not known.

:mod:`tracekit.analysis.header` shows the form of a header.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Line(NamedTuple):
    """A line of the header without its comment marks, and its number in the file, from 1."""

    number: int
    text: str

    @property
    def indent(self) -> int:
        """How many blanks it begins with."""
        return len(self.text) - len(self.text.lstrip())


@dataclass
class HeaderField:
    """One field as written: the text after the colon and the indented lines below it."""

    name: str
    value: str
    number: int
    lines: list[Line] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The field as one line."""
        parts = (self.value, *(line.text for line in self.lines))
        return " ".join(part.strip() for part in parts if part.strip())

    @property
    def entries(self) -> list[tuple[int, str]]:
        """The entries below it with the numbers of their lines.

        A line that is indented deeper than the first continues the entry above.
        """
        entries: list[tuple[int, str]] = []
        base = min((line.indent for line in self.lines), default=0)
        for line in self.lines:
            if line.indent > base and entries:
                number, text = entries[-1]
                entries[-1] = (number, f"{text} {line.text.strip()}")
            else:
                entries.append((line.number, line.text.strip()))
        return entries


def split_header(sql_text: str) -> tuple[list[Line], str]:
    """Split a file into its header lines, without the comment marks, and the SQL below."""
    lines = sql_text.removeprefix("\ufeff").splitlines()
    header = []
    for number, line in enumerate(lines, start=1):
        if not line.startswith("--"):
            break
        header.append(Line(number, line[2:].removeprefix(" ").rstrip()))
    return header, "\n".join(lines[len(header) :])


def until_blank(lines: Sequence[Line]) -> list[Line]:
    """Return the lines before the first empty one."""
    paragraph = []
    for line in lines:
        if not line.text.strip():
            break
        paragraph.append(line)
    return paragraph
