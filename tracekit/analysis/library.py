"""The library: macros, an empty store, and parsed headers of the SQL files, built once per version.

Building it takes longer than a breakdown of a small trace, so it is saved: a read-only DuckDB file
that every connection attaches as ``library``, an empty store that is copied to create a new store,
and two files for Python. A macro reads the tables of the calling connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tracekit.analysis.catalog import QUERIES, cache_digest, load_catalog
from tracekit.analysis.header import SQL_TOKEN
from tracekit.analysis.names.rules import (
    CLASS_CALLS,
    CLASS_MACROS,
    ROLE_CALL,
    ROLE_MACROS,
    builtin_classes,
    class_macros,
    create_role_macros,
)
from tracekit.analysis.params import default_of
from tracekit.database.connections import EMPTY_STORE
from tracekit.sql_text import literal, quote

_KEPT_S = 86_400
"""Age at which libraries of other versions are deleted, seconds."""

if TYPE_CHECKING:
    import duckdb

    from tracekit.analysis.spec import Spec

_COMMENT_OR_TEXT = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
_READ = re.compile(
    r"\b(?:from|join|describe|summarize|table)\s+(?:[a-z_]\w*\.)*\"?([a-z_]\w*)\b(?!\s*[.(])"
)
_LISTED = re.compile(r"\bfrom\s+([a-z_]\w*(?:\s+(?:as\s+)?[a-z_]\w*)?(?:\s*,\s*[a-z_][\w ]*)+)")
_ARGUMENTS = re.compile(r"\b([a-z_]\w*)\(((?:\s*'[a-z_]\w*'\s*,?)+)")
_CALLED = re.compile(r"\b([a-z_]\w*)\s*\(")
_DEFINED = re.compile(r"\b([a-z_]\w*)\s+as\s+(?:(?:not\s+)?materialized\s*)?\(")
_MACRO = re.compile(r"^CREATE OR REPLACE MACRO\s+(\w+)", re.MULTILINE)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of tables, functions, and analyses that a statement may use.

    Calls of analyses keep their parentheses: ``kernels()``. Names of common table expressions are
    excluded. Table names that are passed to a function as a string, as in
    ``interval_union('span')``, are included.
    """
    catalog = load_catalog()
    lower = text.lower()
    plain = _COMMENT_OR_TEXT.sub("''", lower)
    defined = set(_DEFINED.findall(plain))
    read = [*_READ.findall(plain)]
    for listed in _LISTED.findall(plain):
        read += [item.split()[0] for item in listed.split(",") if item.strip()]
    result: dict[str, None] = {}
    for name in read:
        if name not in defined:
            result.setdefault(name)
    for function, listed in _ARGUMENTS.findall(lower):
        if function in _table_macros():
            names = re.findall(r"\w+", listed)
            result.update(dict.fromkeys(name for name in names if name not in defined))
    for name in _CALLED.findall(plain):
        file = _macro_files().get(name)
        if file is not None:
            result.setdefault(file)
        elif name in CLASS_CALLS:
            result.setdefault(CLASS_MACROS)
        elif name.startswith(ROLE_CALL):
            result.setdefault(ROLE_MACROS)
        elif name in catalog.analyses:
            result.setdefault(f"{name}()")
    return tuple(result)


@cache
def _macro_files() -> dict[str, str]:
    """Return the SQL file of each macro; a file may define several."""
    return {
        name: file
        for file, text in load_catalog().functions.texts()
        for name in _MACRO.findall(text)
    }


@cache
def _table_macros() -> frozenset[str]:
    """Return the macros that take the name of a table as a string."""
    return frozenset(
        name
        for _, text in load_catalog().functions.texts()
        if "query_table(" in text
        for name in _MACRO.findall(text)
    )


_reads: dict[str, list[str]] = {}


def reads(name: str) -> Sequence[str]:
    """Return the names that a built-in SQL file reads; see :func:`names_in`."""
    if not _reads:
        _folder()
    return _reads.get(name, ())


def reads_of(spec: Spec) -> list[str]:
    """Return the names that an SQL file reads; it may be built-in or the user's."""
    text = f"{spec.sql}\nFROM {spec.input}" if spec.input else spec.sql
    return [name for name in names_in(text) if name != spec.name]


def start_session(connection: duckdb.DuckDBPyConnection, *, is_complete: bool = False) -> None:
    """Prepare a connection for relations: attach the library and a session.

    Args:
        connection: connection whose current database has the tables.
        is_complete: whether the database has all tables and views of a store.
    """
    from tracekit.database.connections import add_session
    from tracekit.database.opening import attach_library

    attach_library(connection, library_file())
    add_session(connection, is_complete=is_complete)


def library_file() -> Path:
    """Return the path of the library's DuckDB file; the first call in each version creates it."""
    return _folder() / "library.duckdb"


@cache
def _folder() -> Path:
    name = f"library-{cache_digest()[:16]}"
    for place in _places():
        folder = place / name
        with contextlib.suppress(OSError):
            _load(folder)
            return folder
        with contextlib.suppress(OSError):
            _create(folder)
            return folder
    # Neither folder is writable, so this process uses its own library.
    folder = Path(tempfile.mkdtemp(prefix="tracekit-")) / name
    import atexit

    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    _create(folder)
    return folder


def _load(folder: Path) -> None:
    """Load the headers of all SQL files and the names that each file reads.

    Raises OSError if the library does not exist, or was damaged and is deleted.
    """
    try:
        reads_of_files = json.loads((folder / "reads.json").read_bytes())
        load_catalog().decode_headers((folder / "headers.msgpack").read_bytes())
    except (ValueError, msgspec.MsgspecError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise OSError(f"{folder}: damaged") from error
    _reads.update(reads_of_files)


def _places() -> Iterator[Path]:
    """Yield folders for the library: next to Python's compiled files, then in the user's cache."""
    from tracekit.database.cache import cache_dir, is_private

    if os.access(QUERIES, os.W_OK):
        yield QUERIES / "__pycache__"
    cached = cache_dir()
    with contextlib.suppress(OSError):
        cached.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Macros of the library run on every connection, so no other user may be able to write it.
    if is_private(cached):
        yield cached


def _create(folder: Path) -> None:
    """Build the library, rename its folder into place, and delete old libraries."""
    folder.parent.mkdir(exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix="library-building-", dir=folder.parent))
    try:
        catalog = load_catalog()
        for specs in catalog:
            _reads.update({name: reads_of(spec) for name, spec in specs.items()})
        (building / "headers.msgpack").write_bytes(catalog.encoded_headers())
        (building / "reads.json").write_text(json.dumps(_reads), "utf-8")
        _fill(building / "library.duckdb", building / EMPTY_STORE)
        building.chmod(0o755)
        with contextlib.suppress(OSError):
            # This fails if another process finished first.
            building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    for other in folder.parent.glob("library-*"):
        with contextlib.suppress(OSError):
            # Another checkout may use the same cache, and another process may be building a
            # library.
            if time.time() - other.stat().st_mtime > _KEPT_S:
                shutil.rmtree(other, ignore_errors=True)


def _fill(library: Path, empty_store: Path) -> None:
    """Create the macros of all functions in a DuckDB file, and the empty store in another.

    DuckDB creates a macro only if the tables that it reads exist, so empty ones are created first.
    Macros of analyses are not saved, because attaching 150 of them takes longer than creating the
    few that a statement calls.
    """
    import duckdb

    from tracekit.analysis.relations import create_empty_store
    from tracekit.database.connections import LIBRARY, add_session, create_tables

    catalog = load_catalog()
    with duckdb.connect() as connection:
        connection.execute(
            f"ATTACH {quote(str(empty_store))} AS empty_store; USE empty_store; "
            f"ATTACH {quote(str(library))} AS {LIBRARY}"
        )
        add_session(connection)
        create_empty_store(connection)
        connection.execute("USE memory; DETACH empty_store")
        create_tables(connection, library)
        add_session(connection)
        connection.execute(class_macros(builtin_classes(), f"{LIBRARY}.main."))
        for spec in (*catalog.tables.values(), *catalog.analyses.values()):
            connection.execute(spec.empty_table())
        create_role_macros(connection)
        statements = [
            _MACRO.sub(rf"CREATE OR REPLACE MACRO {LIBRARY}.main.\g<1>", text)
            for _, text in catalog.functions.texts()
        ]
        statements += [
            macro_of_analysis(spec, "memory.main.") for spec in catalog.analyses.values()
        ]
        while statements:
            failed = []
            for statement in statements:
                try:
                    connection.execute(statement)
                except duckdb.Error as error:
                    failed.append((statement, error))
            if len(failed) == len(statements):
                raise failed[0][1]
            statements = [statement for statement, _ in failed]


def macro_of_analysis(spec: Spec, place: str) -> str:
    """Return the macro of an analysis. Parameter ``limit`` of its header becomes ``p_limit``.

    Without the prefix, parameters could have the names of columns or SQL keywords.
    """

    def replaced(match: re.Match[str]) -> str:
        param = params.get(match["param"])
        return match[0] if param is None else f"CAST(p_{param.name} AS {param.type})"

    params = {param.name: param for param in spec.params}
    takes = ", ".join(
        f"p_{name}" + ("" if param.default is None else f" := {literal(default_of(param))}")
        for name, param in params.items()
    )
    body = SQL_TOKEN.sub(replaced, spec.sql)
    return f"CREATE OR REPLACE MACRO {place}{spec.name}({takes}) AS TABLE (\n{body}\n)"
