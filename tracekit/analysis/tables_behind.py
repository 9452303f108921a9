"""Which derived tables analyses read, directly or through views and macros."""

from __future__ import annotations

from collections.abc import Iterable

from tracekit.analysis.catalog import load_catalog


def tables_behind(analyses: Iterable[str]) -> frozenset[str]:
    """Return the names of the tables that analyses require, as the headers of SQL files say it.

    What a table was made of is not among them, and neither are the tables of the file itself, which
    headers do not name.

    Args:
        analyses: names of analyses.
    """
    catalog = load_catalog()
    found: set[str] = set()

    def look(names: Iterable[str]) -> None:
        for name in names:
            if name not in found:
                found.add(name)
                between = catalog.views.get(name) or catalog.macros.get(name)
                if between is not None:
                    look(between.requires)

    for name in analyses:
        look(catalog.analysis(name).requires)
    return frozenset(found)
