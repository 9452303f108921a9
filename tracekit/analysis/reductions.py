"""Analyses that reduce the rows of others.

An analysis of scope ``run`` may be a small reduction: of what others tell of each trace to what
they tell of the run. It names them under ``Reduces``, and reads the rows of each from a temporary
table of its name with ``_rows`` behind it, whose ``rowid`` is the place of a row. The rows are all
that it sees: whoever computed them, and where.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tracekit.analysis.params import default_of
from tracekit.analysis.result import Result, picked
from tracekit.errors import QueryError
from tracekit.sql_text import select_rows

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.spec import Reduced, Spec

_COMMENT = re.compile(r"--[^\n]*")
_WORD = re.compile(r"\w+")

Inputs = Mapping["Reduced", Result]
"""The results that are reduced, by how headers name them."""


def columns_read(specs: Iterable[Spec], inputs: Inputs) -> dict[Reduced, Result]:
    """Return results with those columns alone whose names stand in the SQL of reductions."""
    words: dict[Reduced, set[str]] = {reduced: set() for reduced in inputs}
    for spec in specs:
        named = set(_WORD.findall(_COMMENT.sub("", spec.sql)))
        for reduced in spec.reduces:
            if reduced in words:
                words[reduced] |= named
    kept: dict[Reduced, Result] = {}
    for one, result in inputs.items():
        names = [name for name in result.column_names if name in words[one]]
        # A reduction may count rows and read none of their columns.
        kept[one] = picked(result, names or result.column_names[:1])
    return kept


@contextmanager
def rows_laid(connection: duckdb.DuckDBPyConnection, inputs: Inputs) -> Iterator[None]:
    """Have results as the tables that reductions read; the connection's alone, and gone behind."""
    try:
        lay_rows(connection, inputs)
        yield
    finally:
        for reduced in inputs:
            connection.execute(f"DROP TABLE IF EXISTS temp.{reduced.table}")


def lay_rows(connection: duckdb.DuckDBPyConnection, inputs: Inputs) -> None:
    """Make results the tables that reductions read, for as long as the connection is open."""
    for reduced, result in inputs.items():
        types = {column.name: column.type for column in result.columns}
        rows = select_rows(types, result.rows)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {reduced.table} AS {rows}")


def reduces_nothing(spec: Spec, inputs: Inputs) -> bool:
    """Whether an analysis reduces no row: then it has none.

    What it names first is what it reduces; what comes behind it is looked at besides.
    """
    return bool(spec.reduces) and not inputs[spec.reduces[0]].rows


def passed_on(spec: Spec, reduced: Reduced, params: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters with which a reduction asks for what it reduces.

    ``layers=$layers`` in its header hands one on, or its default; NULL is left out.
    """
    own: dict[str, object] = {
        param.name: default_of(param) for param in spec.params if not param.is_required
    }
    own.update(params)
    values = {name: own.get(text[1:]) if text[0] == "$" else text for name, text in reduced.params}
    return {name: value for name, value in values.items() if value is not None}


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
