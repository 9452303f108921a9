"""The lines of a SQL header, and how they make fields and entries; what they say is not known.

:mod:`tracekit.analysis.header` shows the form of a header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_HEADER = re.compile(r"(?:--[^\n]*(?:\n|\Z))*")


class Line(NamedTuple):
    """A line of the header without its comment marks, and its number in the file, from 1."""

    number: int
    text: str


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
        stripped = [(line.number, line.text, line.text.lstrip()) for line in self.lines]
        base = min((len(text) - len(rest) for _, text, rest in stripped), default=0)
        for number, text, rest in stripped:
            if len(text) - len(rest) > base and entries:
                first, before = entries[-1]
                entries[-1] = (first, f"{before} {rest.rstrip()}")
            else:
                entries.append((number, rest.rstrip()))
        return entries


def split_header(sql_text: str) -> tuple[list[Line], str]:
    """Split a file into its header lines, without the comment marks, and the SQL below."""
    text = sql_text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    match = _HEADER.match(text)
    end = match.end() if match else 0
    header = [
        Line(number, line[2:].removeprefix(" ").rstrip())
        for number, line in enumerate(text[:end].removesuffix("\n").split("\n"), start=1)
        if end
    ]
    return header, text[end:]


def until_blank(lines: Sequence[Line]) -> list[Line]:
    """Return the lines before the first empty one."""
    paragraph = []
    for line in lines:
        if not line.text.strip():
            break
        paragraph.append(line)
    return paragraph
