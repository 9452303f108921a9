"""Checks the regular expressions of a rules file before anything is read with them."""

from __future__ import annotations

from tracekit.errors import UsageError
from tracekit.sql_text import quote


def check_pattern(where: str, pattern: str) -> None:
    """Make sure that a pattern is a regular expression of DuckDB's (RE2).

    Args:
        where: the file and the rule, for the message.
        pattern: the pattern.

    Raises:
        UsageError: it is none.
    """
    import duckdb

    with duckdb.connect() as connection:
        try:
            connection.execute(f"SELECT regexp_matches('', {quote(pattern)})").fetchall()
        except duckdb.Error as error:
            raise UsageError(
                f"{where}: the pattern {pattern!r} is no regular expression: {error}",
                hint="patterns are RE2: no look-around, no back-references",
            ) from error
