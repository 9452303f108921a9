"""Creates what a store holds beyond the ingested tables: macros, derived tables, views.

Each is a SQL file under ``queries/``; the headers say what requires what, which gives the order.
"""

from __future__ import annotations

import hashlib
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.analysis.catalog import Catalog, load_catalog
from tracekit.analysis.kernel_rules import builtin_rules_text, create_rules, load_rules
from tracekit.analysis.spec import Spec

if TYPE_CHECKING:
    import duckdb


def queries_digest(rules: Path | None = None) -> str:
    """Return a digest of everything that decides what is derived from the ingested tables.

    Args:
        rules: a rules file of the user's.
    """
    digest = hashlib.sha256()
    for spec in _in_order(load_catalog()):
        digest.update(f"{spec.kind} {spec.name}\0{spec.sql}\0".encode())
    digest.update(builtin_rules_text().encode())
    if rules is not None and rules.is_file():
        digest.update(rules.read_bytes())
    return digest.hexdigest()


def derive(connection: duckdb.DuckDBPyConnection, rules: Path | None = None) -> None:
    """Create macros, derived tables and views in a store whose ingested tables are filled.

    Args:
        connection: the store that is being built.
        rules: a rules file of the user's for the classifier.

    Raises:
        UsageError: the rules file is not valid.
    """
    create_rules(connection, load_rules(rules))
    for spec in _in_order(load_catalog()):
        connection.execute(_statement(spec))


def _statement(spec: Spec) -> str:
    if spec.kind == "macro":
        return spec.sql
    what = "TABLE" if spec.kind == "table" else "VIEW"
    return f"CREATE {what} {spec.name} AS\n{spec.sql}"


def _in_order(catalog: Catalog) -> list[Spec]:
    specs = catalog.macros | catalog.tables | catalog.views
    graph = {
        name: [other for other in spec.requires if other in specs] for name, spec in specs.items()
    }
    return [specs[name] for name in TopologicalSorter(graph).static_order()]
