"""Helpers that write Markdown: escaped prose, tables, links, anchors, and console blocks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

_CODE = re.compile(r"(`[^`]*`)")
# Characters with a meaning in Markdown or HTML.
_SIGNS = re.compile(r"[*<|\[\]]")
_ENTITIES = {"<": "&lt;", "*": "\\*", "|": "\\|", "[": "\\[", "]": "\\]"}


def prose(text: str) -> str:
    """Return text as Markdown: escape everything outside backticks."""
    parts = _CODE.split(text)
    return "".join(
        part.replace("|", "\\|")
        if part.startswith("`")
        else _SIGNS.sub(lambda match: _ENTITIES[match[0]], part)
        for part in parts
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table from cells in Markdown."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def link(text: str, target: str, page: str) -> str:
    """Return a link.

    Args:
        text: the link text.
        target: path relative to the repository, with an optional `#anchor`.
        page: path of the page with the link, relative to the repository.
    """
    path, _, anchor = target.partition("#")
    relative = os.path.relpath(path, PurePosixPath(page).parent)
    return f"[{text}]({relative}{'#' + anchor if anchor else ''})"


def slug(heading: str) -> str:
    """Return the anchor that GitHub and the site of the manual generate for a heading."""
    text = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return text.strip().replace(" ", "-")


def console(command: str, output: str) -> str:
    """Return a console block with a command and its output."""
    return f"```console\n$ {command}\n{output}```\n"
