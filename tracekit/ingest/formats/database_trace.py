"""Reader of traces in SQLite databases; rows become events of a Chrome trace.

Each profiler has a :class:`Schema` with statements that format each row in SQLite as the event that
torch.profiler (Kineto) would write. :mod:`tracekit.ingest.formats.event_texts` reads these events.

Databases are untrusted: they are opened read-only, only tables are queried (no views), and nothing
in the schema is trusted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Protocol

from tracekit.errors import TraceError
from tracekit.ingest.budget import MAX_EVENT_BYTES, Budget
from tracekit.ingest.formats.event_texts import EventTextReader

if TYPE_CHECKING:
    from tracekit.ingest.byte_stream import ByteStream
    from tracekit.ingest.event_collector import EventRows

_STEPS = 100_000
"""Number of instructions of SQLite's virtual machine between budget checks (a few ms)."""

_UNFINISHED = ("-wal", "-journal")


class Database:
    """A database, opened read-only. Views and tables with computed columns are ignored."""

    def __init__(self, path: Path, shown: object, budget: Budget) -> None:
        self.shown = shown
        self._budget = budget
        self._unique: dict[tuple[str, ...], str] = {}
        for suffix in _UNFINISHED:
            journal = Path(f"{path}{suffix}")
            if journal.is_file() and journal.stat().st_size:
                raise TraceError(
                    f"{shown}: the database is incomplete: {journal.name} is next to it",
                    hint="wait until it is complete, or export it again",
                )
        # Never write to the file, and create no lock files next to it.
        self._connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro&immutable=1",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._connection.execute("PRAGMA trusted_schema = OFF")
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_EVENT_BYTES)
            self._connection.text_factory = _text
            # Interrupt statements that take too long: trees of a crafted file may share pages.
            self._connection.set_progress_handler(budget.is_stuck, _STEPS)
            # Exclude views, and virtual tables, which have no root page.
            names = self.rows(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
            )
            self.columns: dict[str, frozenset[str]] = {}
            for (name,) in names:
                declared = self.rows("SELECT name, hidden FROM pragma_table_xinfo(?)", name)
                if not any(hidden for _, hidden in declared):
                    self.columns[name] = frozenset(column for column, _ in declared)
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement for metadata and return all rows."""
        results = []
        for row in self._connection.execute(sql, values):
            self._budget.hold(sum(map(getsizeof, (row, *row))))
            results.append(row)
        return results

    def texts(self, sql: str) -> Iterator[bytes]:
        self._connection.text_factory = bytes
        try:
            for (text,) in self._connection.execute(sql):
                yield text
        finally:
            self._connection.text_factory = _text

    def unique(self, table: str, *key: str) -> str:
        """Return the SQL name of a table with one row per key, so that joins add no rows.

        If the schema does not guarantee unique keys, the table is a copy with the first row of each
        key.
        """
        place = (table, *key)
        if place not in self._unique:
            if not self.columns.get(table, frozenset()).issuperset(key):
                raise sqlite3.OperationalError(f"it has no table {table:.80} with {', '.join(key)}")
            declared = self.rows("SELECT name, pk FROM pragma_table_info(?)", table)
            quoted = _quoted(table)
            if {column for column, pk in declared if pk} != {*key}:
                copy = f"unique_{len(self._unique)}"
                columns = ", ".join(_quoted(column) for column, _ in declared)
                keys = ", ".join(map(_quoted, key))
                self.make(
                    f"CREATE TEMP TABLE {copy} ({columns}, PRIMARY KEY ({keys}));"
                    f"INSERT OR IGNORE INTO temp.{copy} SELECT {columns} FROM {quoted}"
                )
                quoted = f"temp.{copy}"
            self._unique[place] = quoted
        return self._unique[place]

    def make(self, script: str) -> None:
        self._connection.executescript(script)

    def fill(self, table: str, rows: Iterable[Sequence[object]]) -> None:
        for row in rows:
            places = ", ".join("?" * len(row))
            self._connection.execute(f"INSERT OR IGNORE INTO temp.{table} VALUES ({places})", row)

    def close(self) -> None:
        self._connection.close()


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Schema(Protocol):
    """Reader of the databases of one profiler."""

    @staticmethod
    def is_of(database: Database) -> bool:
        """Return whether a database is from this profiler."""

    def __init__(self, database: Database) -> None:
        """Check the version of the schema and the columns."""

    def events(self) -> list[str]:
        """Return statements with one column: the text of one event per row."""

    def metadata(self) -> dict[str, object]:
        """Return the metadata of the database, as :meth:`TraceReader.metadata` does."""


def event_sql(
    name: str,
    category: str,
    thread: tuple[str, str],
    time: tuple[str, str | None] | None,
    args: Mapping[str, str],
    phase: str = "'X'",
) -> str:
    """Return the SQL expression for the text of one event; all arguments are SQL expressions.

    Wrap text columns in :func:`as_text` and numeric columns in :func:`as_number`: any column may
    contain bytes, which SQLite cannot convert to JSON. `time` is the start and duration in ns.
    """
    members = {"ph": phase, "cat": category, "name": name, "pid": thread[0], "tid": thread[1]}
    parts = ["'{' || " + _members(members)]
    if time is not None:
        parts += [_us(key, ns) for key, ns in zip(("ts", "dur"), time, strict=True) if ns]
    if args:
        fields = " || ".join(
            f"CASE WHEN {sql} IS NULL THEN '' ELSE ',\"{key}\":' || json_quote({sql}) END"
            for key, sql in args.items()
        )
        parts.append(f"',\"args\":{{' || substr({fields}, 2) || '}}'")
    return " || ".join([*parts, "'}'"])


def _members(members: Mapping[str, str]) -> str:
    """Return SQL for members of an object, without its braces; NULL becomes null."""
    return " || ',' || ".join(f"'\"{key}\":' || json_quote({sql})" for key, sql in members.items())


def as_text(sql: str) -> str:
    """Return SQL that converts any value except NULL to text."""
    return f"({sql} || '')"


def as_number(sql: str) -> str:
    """Return SQL that converts any value except NULL to a number."""
    return f"({sql} + 0)"


def _us(key: str, ns: str) -> str:
    """Return SQL for a time as a member: integer ns become µs with three decimals."""
    return (
        f"',\"{key}\":' || CASE typeof({ns}) WHEN 'integer' THEN printf('%s%d.%03d', "
        # abs() fails for the smallest 64-bit integer.
        f"CASE WHEN {ns} < 0 THEN '-' ELSE '' END, abs({ns} / 1000), abs({ns} % 1000)) "
        "ELSE 'null' END"
    )


class DatabaseReader(EventTextReader):
    def __init__(self, stream: ByteStream, schemas: tuple[type[Schema], ...]) -> None:
        super().__init__(stream)
        self._schemas = schemas

    def blocks(self) -> Iterator[EventRows]:
        try:
            with (
                self._stream.local_file() as path,
                closing(Database(path, self._stream.path, self._budget)) as db,
            ):
                yield from self._read(db)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # UnicodeDecodeError: SQLite's message may quote a damaged schema.
            if self._budget.is_stuck():
                raise self._budget.exceeded("work without end") from error
            raise TraceError(
                f"{self._stream.path}: the SQLite database cannot be read: {error}",
                hint="copy it again, or export it again",
            ) from error

    def _read(self, database: Database) -> Iterator[EventRows]:
        schema = next((schema for schema in self._schemas if schema.is_of(database)), None)
        if schema is None:
            raise TraceError(
                f"{self._stream.path}: a SQLite database, but not from Nsight Systems or "
                "rocprofv3 (rocpd)",
                hint="write one with nsys export --type sqlite or rocprofv3 --output-format rocpd",
            )
        trace = schema(database)
        statements = trace.events()
        yield from self._rows(text for sql in statements for text in database.texts(sql))
        self._metadata = trace.metadata()

    def unreadable(self) -> TraceError:
        return TraceError(
            f"{self._stream.path}: the database has no device work, calls, or ranges",
            hint="check the options: nsys profile --trace=cuda,nvtx … or rocprofv3 --sys-trace …",
        )
