"""Checks the regular expressions of a rules file before anything is read with them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tracekit.errors import UsageError
from tracekit.sql_text import quote

if TYPE_CHECKING:
    import duckdb

_MAX_SHOWN = 200


def check_pattern(where: str, pattern: str) -> None:
    """Make sure that a pattern is a regular expression of DuckDB's (RE2).

    Args:
        where: the file and the rule, for the message.
        pattern: the pattern.

    Raises:
        UsageError: it is none.
    """
    import duckdb

    if "\0" in pattern:
        raise UsageError(f"{where}: the pattern holds a zero byte")
    try:
        _connection().execute(f"SELECT regexp_matches('', {quote(pattern)})").fetchall()
    except (duckdb.Error, UnicodeEncodeError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"{where}: the pattern {_shown(pattern)} is no regular expression: {_cut(reason)}",
            hint="patterns are RE2: no look-around, no back-references",
        ) from error


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """Return one connection for all patterns: making it takes longer than to check a hundred."""
    import duckdb

    return duckdb.connect()


def _shown(pattern: str) -> str:
    return repr(_cut(pattern))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
