"""The page that leads from a figure to the analysis, the definition and the SQL that give it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tracekit.analysis.catalog import load_catalog

from .analyses import place_of
from .markdown import link, prose, table
from .places import DOCS, REPO, in_repo

PAGE = "docs/reference/find-a-figure.md"
LIST = Path(__file__).with_name("figures.toml")
DEFINITIONS = "docs/definitions.md"


class StaleFigureError(Exception):
    """The list of figures names something that is not there."""


def figures_page() -> dict[str, str]:
    """Return the page.

    Raises:
        StaleFigureError: an analysis, a column, a definition or a file that the list names does
            not exist.
    """
    catalog = load_catalog()
    rows = []
    for figure in tomllib.loads(LIST.read_text("utf-8"))["figure"]:
        name = figure["name"]
        where, code = [], []
        for place in figure["columns"]:
            analysis, _, column = place.partition(".")
            if analysis not in catalog.analyses:
                raise StaleFigureError(f"{name}: there is no analysis {analysis}")
            spec = catalog.analyses[analysis]
            if column and column not in spec.column_names:
                raise StaleFigureError(f"{name}: {analysis} has no column {column}")
            shown = link(f"`{analysis}`", place_of(spec), PAGE)
            where.append(f"{shown}, column `{column}`" if column else shown)
            code.append(in_repo(spec.path))
        code += [_sql_of(name, relation) for relation in figure.get("relations", [])]
        code += [_file(name, path) for path in figure.get("files", [])]
        anchor = figure["definition"]
        if f"\n## {anchor}\n" not in (DOCS / "definitions.md").read_text("utf-8"):
            raise StaleFigureError(f"{name}: {DEFINITIONS} has no section {anchor!r}")
        target = f"{DEFINITIONS}#{slug(anchor)}"
        rows.append(
            (
                prose(name),
                "; ".join(where),
                link(prose(anchor), target, PAGE),
                ", ".join(link(path, path, PAGE) for path in dict.fromkeys(code)),
            )
        )
    parts = [
        "# Find a figure\n",
        (
            "From the name that people have for a figure to the analysis and column that give it,"
            " the sentence that defines it, and the file that works it out.\n"
        ),
        table(("figure", "where it is shown", "definition", "code"), rows),
    ]
    return {PAGE: "\n".join(parts)}


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and the manual's site make it."""
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return kept.strip().replace(" ", "-")


def _sql_of(figure: str, relation: str) -> str:
    catalog = load_catalog()
    for specs in (catalog.tables, catalog.views, catalog.temporaries, catalog.macros):
        if relation in specs:
            return in_repo(specs[relation].path)
    raise StaleFigureError(f"{figure}: there is no table, view or macro {relation}")


def _file(figure: str, path: str) -> str:
    if not (REPO / path).exists():
        raise StaleFigureError(f"{figure}: there is no file {path}")
    return path
