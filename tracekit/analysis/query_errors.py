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
_SUGGESTION = re.compile(r"^(?:Did you mean|Candidate).*", re.MULTILINE)
_LOCKED = re.compile(r"disabled by configuration|configuration has been locked")

_DAMAGE = re.compile(
    "checksum|[Cc]orrupt|Could not read|[Ss]erializ|[Dd]eserializ|read from file|truncated file"
    # Damaged Parquet files of a dataset.
    "|Failed to read file|[Dd]ecompress|Parquet|No magic bytes|TProtocol"
)

_MISSING_COLUMN = re.compile(
    r"Referenced column \"(?P<name>[^\"]+)\" not found"
    r"|does not have a column named \"(?P<named>[^\"]+)\""
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
    column = unknown["name"] or unknown["named"] if unknown else ""
    here = name_here(column, "columns")
    homes = _relations_with(column)
    if suggestion or here or homes:
        candidates = suggestion.group().strip() if suggestion else ""
        return ". ".join(filter(None, (here and f"in tracekit: {here}", homes, candidates)))
    place = _LINE.search(message)
    if place:
        # The caret's column includes the prefix `LINE n: `.
        column = len(place["caret"]) - len(f"LINE {place['line']}: ") + 1
        return f"line {place['line']}, column {column}: {place['text'].strip()}"
    return "SHOW TABLES lists the tables and views, DESCRIBE NAME lists the columns"


def _relations_with(column: str) -> str:
    """Return a hint with the public tables and views that have a column, or an empty string."""
    catalog = load_catalog()
    public = [
        one for one in (*catalog.views.values(), *catalog.tables.values()) if not one.is_private
    ]
    name = column.lower()
    homes = [one.name for one in public if name in one.column_names]
    homes += [one.name for one in TABLES if name in (held.name for held in one.columns)]
    # View work answers most questions, so it comes first.
    first, *others = sorted(homes, key=lambda home: home != "work") or [""]
    more = f" (also in {', '.join(others[:2])})" if others else ""
    return f"column {name} is in {first}{more}" if first else ""


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
