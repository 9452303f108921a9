"""Formats values as SQL text.

If values are bound to a statement, DuckDB imports numpy and pandas if installed, which takes longer
than most statements. So most values are written into the SQL text, only by this module.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

_SURROGATE = re.compile("[\ud800-\udfff]")


def quote(text: str) -> str:
    """Return ``text`` as an SQL string literal. Lone surrogates become U+FFFD."""
    if not text.isascii():
        text = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    return "'" + text.replace("'", "''") + "'"


def literal(value: object) -> str:
    """Return None, a bool, an int, a finite float, or a string as an SQL literal.

    Raises:
        TypeError: the value has another type.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{value!r}::DOUBLE"
    if isinstance(value, str):
        return quote(value)
    raise TypeError(f"no SQL literal for a {type(value).__name__}")


def rows(values: Sequence[Sequence[object]]) -> str:
    """Return the rows of a VALUES list, e.g. ``(1, 'a'), (2, NULL)``."""
    return ", ".join("(" + ", ".join(literal(value) for value in row) + ")" for row in values)


_FEW_ROWS = 8
"""Maximum number of rows for which literals are faster than JSON."""

_PLAIN_TYPES = frozenset(("BIGINT", "BOOLEAN", "DOUBLE", "INTEGER", "VARCHAR"))
"""Types for which it is sufficient to cast the first literal of a column."""


def select_rows(columns: Mapping[str, str], values: Sequence[Sequence[object]]) -> str:
    """Return a SELECT statement with rows as literals; many rows become a JSON list per column.

    DuckDB parses a JSON string faster than hundreds of literals, and a list per column faster than
    an object per row.

    Args:
        columns: DuckDB type by name of the column.
        values: rows of None, bool, int, float, str, or lists of them, in the order of columns.
    """
    if 0 < len(values) <= _FEW_ROWS and _PLAIN_TYPES.issuperset(columns.values()):
        with suppress(TypeError):
            return _select_literals(columns, values)
    lists = zip(*values, strict=True) if values else ((),) * len(columns)
    parts = (
        f"unnest(from_json({quote(json.dumps(cells))}, {quote(json.dumps([kind]))})) AS {name}"
        for (name, kind), cells in zip(columns.items(), lists, strict=True)
    )
    return "SELECT " + ", ".join(parts)


def _select_literals(columns: Mapping[str, str], values: Sequence[Sequence[object]]) -> str:
    """Return a SELECT statement with the given rows as literals.

    Raises:
        TypeError: a value has no literal.
    """
    first = zip(values[0], columns.values(), strict=True)
    typed = ", ".join(f"{literal(value)}::{kind}" for value, kind in first)
    parts = [f"({typed})", rows(values[1:])] if len(values) > 1 else [f"({typed})"]
    return f"SELECT * FROM (VALUES {', '.join(parts)}) AS given ({', '.join(columns)})"
