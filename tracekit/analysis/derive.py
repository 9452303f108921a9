"""Creates what a store holds beyond the ingested tables: macros, derived tables, views.

Each is a SQL file under ``queries/``; the headers say what requires what, which gives the order.
"""

from __future__ import annotations

import hashlib
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.analysis import context_walk
from tracekit.analysis.catalog import Catalog, load_catalog
from tracekit.analysis.device_peaks import create_device_peaks, device_peaks_text
from tracekit.analysis.kernel_rules import builtin_rules_text, create_rules, load_rules
from tracekit.analysis.macros import ONLY_IF, macros_of_stores, provide_macros
from tracekit.analysis.range_rules import (
    builtin_range_rules_text,
    create_range_rules,
    load_range_rules,
)
from tracekit.analysis.role_rules import (
    builtin_role_rules_text,
    create_role_rules,
    load_role_rules,
)
from tracekit.analysis.spec import Spec
from tracekit.database import with_room

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
    digest.update(builtin_range_rules_text().encode())
    digest.update(builtin_role_rules_text().encode())
    digest.update(Path(context_walk.__file__).read_bytes())
    digest.update(device_peaks_text().encode())
    if rules is not None and rules.is_file():
        digest.update(rules.read_bytes())
    return digest.hexdigest()


def derive(
    connection: duckdb.DuckDBPyConnection, rules: Path | None = None, text_bytes: int = 0
) -> None:
    """Create macros, derived tables and views in a store whose ingested tables are filled.

    Args:
        connection: the store that is being built.
        rules: a rules file of the user's for the classifier.
        text_bytes: how much JSON text the traces have, roughly; decides how much memory is tried.

    Raises:
        UsageError: the rules file is not valid.
    """
    create_rules(connection, load_rules(rules))
    create_device_peaks(connection)
    create_range_rules(connection, load_range_rules(rules))
    create_role_rules(connection, load_role_rules(rules))
    for name, spec in _ordered(load_catalog()):
        if name == context_walk.WALK:
            with_room(connection, text_bytes, partial(context_walk.walk_contexts, connection))
        elif spec is not None:
            with_room(connection, text_bytes, partial(_create, connection, spec))
    context_walk.drop_walk(connection)


def _create(connection: duckdb.DuckDBPyConnection, spec: Spec) -> None:
    if spec.kind == "macro":
        if spec.name in macros_of_stores():
            connection.execute(spec.sql)
    elif spec.name in ONLY_IF and not connection.execute(ONLY_IF[spec.name]).fetchall():
        columns = ", ".join(f"{column.name} {column.type}" for column in spec.columns)
        connection.execute(f"CREATE TABLE {spec.name} ({columns})")
    else:
        provide_macros(connection, spec)
        what = "TABLE" if spec.kind == "table" else "VIEW"
        connection.execute(f"CREATE {what} {spec.name} AS\n{spec.sql}")


def _in_order(catalog: Catalog) -> list[Spec]:
    return [spec for _, spec in _ordered(catalog) if spec is not None]


def _ordered(catalog: Catalog) -> list[tuple[str, Spec | None]]:
    """Return what is to be made with each behind what it requires; the walk is no SQL file."""
    specs = catalog.macros | catalog.tables | catalog.views
    graph = {
        name: [other for other in spec.requires if other in specs or other == context_walk.WALK]
        for name, spec in specs.items()
    }
    graph[context_walk.WALK] = list(context_walk.REQUIRES)
    return [(name, specs.get(name)) for name in TopologicalSorter(graph).static_order()]
