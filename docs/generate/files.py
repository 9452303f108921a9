"""The map of the code: every folder, and what each file in it says of itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from .markdown import link, prose, table
from .places import REPO

PAGE = "docs/reference/files.md"

_ROOTS = ("tracekit", "collectors", "queries", "native", "docs/generate")
_COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
_HEADER = re.compile(r"^-- (.+)$", re.MULTILINE)


def files_page() -> dict[str, str]:
    """Return the page: a table for each folder of code."""
    parts = [
        "# What is where\n",
        (
            "Every file of the code with the first sentence that it says of itself. A file is one"
            " feature and is named after it; a leading underscore marks what others in its folder"
            " share.\n"
        ),
    ]
    for root in _ROOTS:
        folders = [REPO / root, *sorted(p for p in (REPO / root).rglob("*") if p.is_dir())]
        for folder in folders:
            rows = [
                (link(f"`{path.name}`", path.relative_to(REPO).as_posix(), PAGE), prose(about))
                for path in sorted(folder.iterdir())
                if path.is_file() and (about := _about(path))
            ]
            if rows:
                parts += [f"## {folder.relative_to(REPO).as_posix()}\n", table(("file", ""), rows)]
    return {PAGE: "\n".join(parts)}


def _about(path: Path) -> str:
    """Return the first sentence of a file, nothing of files that are no code."""
    if path.suffix not in (".py", ".sql", ".c", ".h", ".toml"):
        return ""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return _sentence(ast.get_docstring(ast.parse(text)) or "")
    if path.suffix == ".sql":
        found = _HEADER.search(text)
        return found[1] if found else ""
    if path.suffix == ".toml":
        lines = [
            line.lstrip("# ") for line in text.split("\n\n")[0].splitlines() if line[:1] == "#"
        ]
        return _sentence(" ".join(lines))
    found = _COMMENT.search(text)
    return _sentence(re.sub(r"^\s*\* ?", "", found[1], flags=re.MULTILINE) if found else "")


def _sentence(text: str) -> str:
    """Return the first paragraph of a text, up to the end of its first sentence."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.?!])\s", paragraph)[0]
