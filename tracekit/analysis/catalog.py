"""Find the SQL files: adding an analysis is adding one file.

They lie in a folder for each subject; what a file is, an analysis or a table, its header says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from tracekit.analysis.header import parse_header
from tracekit.analysis.spec import Kind, Spec
from tracekit.errors import QueryError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every analysis, materialised table, view and macro file by name, in alphabetical order."""

    analyses: dict[str, Spec]
    tables: dict[str, Spec]
    views: dict[str, Spec]
    macros: dict[str, Spec]

    def analysis(self, name: str) -> Spec:
        """Return the analysis of that name.

        Raises:
            QueryError: there is none; the hint names close matches.
        """
        return _named(self.analyses, "analysis", name)

    def table(self, name: str) -> Spec:
        """Return the materialised table of that name.

        Raises:
            QueryError: there is none; the hint names close matches.
        """
        return _named(self.tables, "table", name)

    def view(self, name: str) -> Spec:
        """Return the view of that name.

        Raises:
            QueryError: there is none; the hint names close matches.
        """
        return _named(self.views, "view", name)

    def macro(self, name: str) -> Spec:
        """Return the macro file of that name.

        Raises:
            QueryError: there is none; the hint names close matches.
        """
        return _named(self.macros, "macro", name)


@cache
def load_catalog(root: Path | None = None) -> Catalog:
    """Read every SQL file once.

    Args:
        root: a folder of folders of SQL files; the installed `tracekit.queries` if None.

    Raises:
        QueryError: a header that cannot be read, or two files of one name.
    """
    found: dict[Kind, dict[str, Spec]] = {kind: {} for kind in get_args(Kind)}
    paths: dict[str, str] = {}
    base = files("tracekit.queries") if root is None else root
    for name, subject, file in _sql_files(base):
        spec = parse_header(file.read_text(encoding="utf-8"), name, str(file), subject)
        if name in paths:
            raise QueryError(f"{file}: {paths[name]} is of the same name")
        paths[name] = spec.path
        found[spec.kind][name] = spec
    return Catalog(
        analyses=found["analysis"],
        tables=found["table"],
        views=found["view"],
        macros=found["macro"],
    )


def _sql_files(root: Traversable) -> list[tuple[str, str, Traversable]]:
    """Return the SQL files with their names and subjects, in alphabetical order."""
    found = []
    for folder in root.iterdir():
        if folder.name.startswith(("_", ".")) or not folder.is_dir():
            continue
        for file in folder.iterdir():
            # A leading underscore marks a file that is not a feature, a leading dot an editor's
            # leftovers.
            if file.name.endswith(".sql") and not file.name.startswith(("_", ".")):
                found.append((file.name.removesuffix(".sql"), folder.name, file))
    return sorted(found, key=lambda item: item[:2])


def _named(specs: Mapping[str, Spec], what: str, name: str) -> Spec:
    if name in specs:
        return specs[name]
    close = get_close_matches(name, specs, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(specs)}"
    raise QueryError(f"there is no {what} named {name!r}", hint=hint if specs else None)
