"""Texts of the code as Markdown, and links from page to page."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

_CODE = re.compile(r"(`[^`]*`)")
# What Markdown or HTML would read as its own.
_SIGNS = re.compile(r"[*<|\[\]]")
_ENTITIES = {"<": "&lt;", "*": "\\*", "|": "\\|", "[": "\\[", "]": "\\]"}


def prose(text: str) -> str:
    """Return a text of a header as Markdown; what stands between backticks stays code."""
    parts = _CODE.split(text)
    return "".join(
        part.replace("|", "\\|")
        if part.startswith("`")
        else _SIGNS.sub(lambda found: _ENTITIES[found[0]], part)
        for part in parts
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells are Markdown already."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def link(text: str, target: str, page: str) -> str:
    """Return a link.

    Args:
        text: what is shown.
        target: a file from the root of the repository, an anchor behind it if wanted.
        page: the page that holds the link, from the root of the repository.
    """
    path, _, anchor = target.partition("#")
    relative = os.path.relpath(path, PurePosixPath(page).parent)
    return f"[{text}]({relative}{'#' + anchor if anchor else ''})"


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and the manual's site make it."""
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return kept.strip().replace(" ", "-")


def console(command: str, output: str) -> str:
    """Return a block that shows a command and what it prints."""
    return f"```console\n$ {command}\n{output}```\n"
