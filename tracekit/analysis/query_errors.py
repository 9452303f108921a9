"""Converts DuckDB's errors about a user's statement to a sentence and a hint."""

from __future__ import annotations

import re

import duckdb

from tracekit.analysis.catalog import load_catalog, name_here
from tracekit.database.connections import SPILL_LIMIT, DamagedStoreError
from tracekit.errors import QueryError, StoreError, did_you_mean
from tracekit.schema import TABLES

_MISSING_TABLE = re.compile(r"Table with name (?P<name>\S+) does not exist")
_LINE = re.compile(r"^LINE (?P<line>\d+): (?P<text>.*)\n(?P<caret> *)\^", re.MULTILINE)
_SUGGESTION = re.compile(r"^(?P<label>Did you mean|Candidate \w+)[: ]*(?P<names>.*)", re.MULTILINE)
_LOCKED = re.compile(r"disabled by configuration|configuration has been locked")

_DAMAGE = re.compile(
    "checksum|[Cc]orrupt|Could not read|[Ss]erializ|[Dd]eserializ|read from file|truncated file"
    # Damaged Parquet files of a dataset.
    "|Failed to read file|[Dd]ecompress|Parquet|No magic bytes|TProtocol"
)

_MISSING_COLUMN = re.compile(
    r"Referenced column \"(?P<name>[^\"]+)\" not found"
    r"|does not have a column named \"(?P<named>[^\"]+)\""
    r"|Column \"(?P<joined>[^\"]+)\" (?:in EXCLUDE list not found|does not exist on)"
)

_LIFT_LIMITS = (
    "SQL cannot access files, the network, or settings; pass --unsafe if you trust the statement"
)


def query_error(connection: duckdb.DuckDBPyConnection, error: duckdb.Error) -> QueryError:
    """Return the error to show for a failed statement."""
    message = str(error)
    first_line = message.strip().splitlines()[0] if message.strip() else type(error).__name__
    return QueryError(first_line, hint=_hint(connection, error, message))


def sql_error(
    connection: duckdb.DuckDBPyConnection, error: duckdb.Error | UnicodeDecodeError
) -> QueryError | StoreError:
    """Return the error for a user's statement: StoreError if the store is damaged."""
    blamed = store_error("sql", error)
    if isinstance(blamed, DamagedStoreError) or isinstance(error, UnicodeDecodeError):
        return blamed or StoreError("sql: the store contains text that is not UTF-8")
    return query_error(connection, error)


def store_error(what: str, error: duckdb.Error | UnicodeDecodeError) -> StoreError | None:
    """Return a StoreError if the store, not the statement, caused an error; else None."""
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, UnicodeDecodeError | duckdb.FatalException | duckdb.InternalException):
        is_damage = True
    else:
        # Errors of the base class come from the Parquet reader: `Out of buffer`.
        is_damage = type(error) is duckdb.Error or _DAMAGE.search(first_line) is not None
    if is_damage:
        return DamagedStoreError(
            f"{what}: the store is damaged or incomplete",
            hint="create it again from the trace, or run tracekit ingest cache clear",
        )
    if isinstance(error, duckdb.OutOfMemoryException | duckdb.IOException):
        return StoreError(
            f"{what}: {first_line}",
            hint="free space in the temporary folder, or raise TRACEKIT_MEMORY_LIMIT (such as 1GB)",
        )
    return None


def _hint(connection: duckdb.DuckDBPyConnection, error: duckdb.Error, message: str) -> str:
    missing = _MISSING_TABLE.search(message)
    if missing and "/" in missing["name"]:
        return _LIFT_LIMITS
    if missing and (here := name_here(missing["name"])):
        return f"in tracekit: {here}"
    if missing and missing["name"].lower() in load_catalog().analyses:
        return f"it is an analysis: FROM {missing['name'].lower()}()"
    if missing:
        return _tables_like(connection, missing["name"])
    if isinstance(error, duckdb.PermissionException) or _LOCKED.search(message):
        return _LIFT_LIMITS
    if "read-only mode" in message:
        return "a store is opened read-only; SELECT from it, or use `ingest` to write a new one"
    if "max_temp_directory_size" in message:
        return (
            "the statement needs too much disk space: aggregate, add a LIMIT, or set "
            f"{SPILL_LIMIT}=32GB"
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return "aggregate in SQL, select fewer columns, or add a LIMIT"
    suggestion = _SUGGESTION.search(message)
    unknown = _MISSING_COLUMN.search(message)
    in_scope = re.findall(r'"(\w+)"', suggestion["names"]) if suggestion else []
    if unknown and (hint := _column_hint(unknown[unknown.lastgroup or 0], in_scope)):
        return hint
    if suggestion:
        return f"{suggestion['label']}: {suggestion['names'].strip()}"
    place = _LINE.search(message)
    if place:
        # The caret's column includes the prefix `LINE n: `.
        column = len(place["caret"]) - len(f"LINE {place['line']}: ") + 1
        return f"line {place['line']}, column {column}: {place['text'].strip()}"
    return "SHOW TABLES lists the tables and views, DESCRIBE NAME lists the columns"


def _column_hint(column: str, in_scope: list[str]) -> str | None:
    """Return a hint with the name that tracekit uses for a column, and where the column is.

    Args:
        column: the missing column.
        in_scope: similar columns of the relations in the statement.
    """
    from difflib import get_close_matches

    homes = _public_columns()
    here = name_here(column, "columns")
    name = re.split(r"\W", here)[0] if here else column.lower()
    if name in homes and name not in in_scope:
        place = f"column {name} is in {_places(homes[name])}"
    else:
        place = None
    if here or place:
        return ". ".join(filter(None, (here and f"in tracekit: {here}", place)))
    for similar in get_close_matches(name, {*homes, *in_scope}, n=1, cutoff=0.7):
        place = "" if similar in in_scope else f" It is in {_places(homes[similar])}"
        return f"did you mean {similar}?{place}"
    return None


def _places(homes: list[str]) -> str:
    # View work answers most questions, so it comes first.
    first, *others = sorted(homes, key=lambda home: home != "work")
    return f"{first} (also in {', '.join(others[:2])})" if others else first


def _public_columns() -> dict[str, list[str]]:
    """Return the columns of the public tables and views, with the relations that have them."""
    catalog = load_catalog()
    homes: dict[str, list[str]] = {}
    for relation in (*catalog.views.values(), *catalog.tables.values()):
        if not relation.is_private:
            for column in relation.column_names:
                homes.setdefault(column, []).append(relation.name)
    for table in TABLES:
        for held in table.columns:
            homes.setdefault(held.name, []).append(table.name)
    return homes


def _tables_like(connection: duckdb.DuckDBPyConnection, name: str) -> str:
    known = [
        row[0]
        for row in connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal "
            "UNION SELECT view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    ]
    hints = (did_you_mean(name, sorted(known)), "SHOW TABLES lists the tables and views")
    return " ".join(filter(None, hints))
