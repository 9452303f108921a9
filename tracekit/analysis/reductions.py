"""Analyses that reduce the rows of others.

An analysis of scope ``run`` may be a small reduction: of what others tell of each trace to what
they tell of the run. It names them under ``Reduces``, and reads the rows of each from a temporary
table of its name with ``_rows`` behind it, whose ``rowid`` is the place of a row. The rows are all
that it sees: whoever computed them, and where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tracekit.errors import QueryError
from tracekit.sql_text import select_rows

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.result import Result
    from tracekit.analysis.spec import Reduced, Spec

Inputs = Mapping["Reduced", "Result"]
"""The results that are reduced, by how headers name them."""


@contextmanager
def rows_laid(connection: duckdb.DuckDBPyConnection, inputs: Inputs) -> Iterator[None]:
    """Have results as the tables that reductions read; the connection's alone, and gone behind.

    Args:
        connection: it runs the reductions.
        inputs: the results.
    """
    for reduced, result in inputs.items():
        types = {column.name: column.type for column in result.columns}
        if result.rows:
            content = f"AS {select_rows(types, result.rows)}"
        else:
            content = "(" + ", ".join(f"{name} {kind}" for name, kind in types.items()) + ")"
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {reduced.table} {content}")
    yield
    for reduced in inputs:
        connection.execute(f"DROP TABLE IF EXISTS temp.{reduced.table}")


def is_of_nothing(spec: Spec, inputs: Inputs) -> bool:
    """Whether an analysis reduces no row: then it has none.

    What it names first is what it reduces; what comes behind it is looked at besides.
    """
    return bool(spec.reduces) and not inputs[spec.reduces[0]].rows


def check_reduced(spec: Spec, reduced: Spec) -> None:
    """Make sure that an analysis may reduce another one.

    Raises:
        QueryError: the other is a reduction itself, or is not about traces.
    """
    if reduced.reduces or reduced.scope == "runs":
        raise QueryError(
            f"{spec.path}: Reduces: {reduced.name} cannot be reduced",
            hint="an analysis of scope trace can",
        )
