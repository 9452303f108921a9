"""Find the SQL files: adding an analysis is adding one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.analysis.header import parse_header
from tracekit.analysis.spec import Kind, Spec
from tracekit.errors import QueryError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_FOLDERS: dict[Kind, str] = {
    "analysis": "analyses",
    "table": "tables",
    "view": "views",
    "macro": "macros",
}


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
        root: a folder with `analyses/`, `tables/`, `views/` and `macros/`; the installed
            `tracekit.queries` if None.

    Raises:
        QueryError: a header that cannot be read, or a file of another kind than its folder holds.
    """
    base: Traversable = files("tracekit.queries") if root is None else root
    found = {kind: _read_folder(base, kind) for kind in _FOLDERS}
    return Catalog(
        analyses=found["analysis"],
        tables=found["table"],
        views=found["view"],
        macros=found["macro"],
    )


def _read_folder(base: Traversable, kind: Kind) -> dict[str, Spec]:
    folder = base.joinpath(_FOLDERS[kind])
    if not folder.is_dir():
        return {}
    specs = {}
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        # A leading underscore marks a file that is not a feature, a leading dot an editor's
        # leftovers.
        if not entry.name.endswith(".sql") or entry.name.startswith(("_", ".")):
            continue
        name = entry.name.removesuffix(".sql")
        spec = parse_header(entry.read_text(encoding="utf-8"), name, str(entry))
        if spec.kind != kind:
            raise QueryError(f"{entry}: Kind is {spec.kind}, but the file is in {folder.name}/")
        specs[name] = spec
    return specs


def _named(specs: Mapping[str, Spec], what: str, name: str) -> Spec:
    if name in specs:
        return specs[name]
    close = get_close_matches(name, specs, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(specs)}"
    raise QueryError(f"there is no {what} named {name!r}", hint=hint if specs else None)
