"""Values as SQL text.

DuckDB's Python binding looks for numpy and pandas whenever a value is bound to a statement, which
costs more than most of our statements where they are installed. So values are written into the
statement, and this is the one place that does it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def quote(text: str) -> str:
    """Return ``text`` as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def literal(value: object) -> str:
    """Return None, a bool, an int, a finite float or a text as a SQL literal.

    Raises:
        TypeError: the value is of another type.
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
