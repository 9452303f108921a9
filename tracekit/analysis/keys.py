"""The keys that headers declare: which table a column joins, and whether every row finds one."""

from __future__ import annotations

from collections.abc import Mapping

from tracekit.analysis.spec import ColumnSpec, Key, Spec

SHARED = ("trace_id", "run_id")
"""Columns that belong to every join of two relations that both have them."""

Columns = Mapping[str, str]
"""Of a relation: name to DuckDB type."""


def wrong_key(column: ColumnSpec, own: Columns, relations: Mapping[str, Columns]) -> str | None:
    """Return what is wrong with the key of a column, or None.

    Args:
        column: the column, which has a key.
        own: the columns of the relation that it is of.
        relations: the columns of all tables and views.
    """
    key = _key_of(column)
    other = relations.get(key.table)
    if other is None:
        return f"{column.name} joins {key}, and there is no table or view {key.table}"
    for ours, theirs in key.pairs:
        if ours not in own:
            return f"{column.name} joins {key}, and there is no column {ours} beside it"
        if theirs not in other:
            return f"{column.name} joins {key}, and {key.table} has no column {theirs}"
        if own[ours] != other[theirs]:
            return f"{ours} is {own[ours]} and joins {key.table}.{theirs}, which is {other[theirs]}"
    return None


def dangling_sql(relation: str, column: ColumnSpec, own: Columns, other: Columns) -> str:
    """Return a query for the count of rows whose key finds no row; a key with a NULL is none.

    Args:
        relation: a table, or a statement in parentheses.
        column: the column with the key.
        own: the columns of the relation.
        other: those of the table that is joined.
    """
    key = _key_of(column)
    pairs = list(key.pairs)
    pairs += [(name, name) for name in SHARED if name in own and name in other]
    joined = " AND ".join(f"a.{ours} = b.{theirs}" for ours, theirs in dict.fromkeys(pairs))
    given = " AND ".join(f"a.{ours} IS NOT NULL" for ours, _ in key.pairs)
    return (
        f"SELECT count(*) FROM {relation} AS a ANTI JOIN {key.table} AS b ON {joined} WHERE {given}"
    )


def columns_of_spec(spec: Spec) -> Columns:
    """Return the columns that a header declares."""
    return {column.name: column.type for column in spec.columns}


def _key_of(column: ColumnSpec) -> Key:
    if column.key is None:
        raise ValueError(f"{column.name} has no key")
    return column.key
