"""Fixtures that load a file without a store, and split text into rows without a database."""

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tracekit.analysis.library import library_file
from tracekit.database.building import build_temporary
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.faults import Faults
from tracekit.ingest.formats.chrome_trace import BLOCK_BYTES, ChromeTraceReader
from tracekit.ingest.load import fill_threads, load_trace
from tracekit.ingest.reading import Reading
from tracekit.schema import RUN_TABLES, TABLES

EVENT_TABLES = ("event", "flow", "instant", "counter", "memory", "metadata", "span_end")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Tables of one ingested file."""

    connection: duckdb.DuckDBPyConnection

    def sql(self, text):
        return self.connection.execute(text).fetchall()

    def everything(self):
        """Return every row that comes from the events, without the format of the file."""
        tables = (*EVENT_TABLES, "thread", "device", "process_group")
        return {table: self.sql(f"FROM {table} ORDER BY ALL") for table in tables}

    @property
    def names(self):
        return [name for (name,) in self.sql("SELECT name FROM event ORDER BY event_id")]

    @property
    def rejected(self):
        return self.sql("SELECT byte_offset, event_id, reason FROM rejected ORDER BY byte_offset")

    @property
    def repaired(self):
        return self.sql("SELECT byte_offset, event_id, reason FROM repaired ORDER BY byte_offset")

    @property
    def truncation(self):
        ((is_truncated, reason),) = self.sql("SELECT is_truncated, truncation_reason FROM trace")
        assert is_truncated == (reason is not None)
        return reason


@pytest.fixture(scope="session")
def build():
    """Return a store that each load empties first: creating one takes longer than most loads."""
    with build_temporary(library_file()) as build:
        build.connection.execute("SET threads = 1")
        yield build


@pytest.fixture
def load(build, tmp_path):
    """Return a function that loads the text of a file; its tables are valid until the next load.

    `name` is the name of the file, `block_bytes` the size of the blocks that are read at once.
    """

    def load_text(content, name="trace.json", block_bytes=BLOCK_BYTES):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return load_path(build, path, read=partial(ChromeTraceReader, block_bytes=block_bytes))

    return load_text


@pytest.fixture
def load_file(build):
    """Return a function that loads a file of any format; see `load`."""
    return partial(load_path, build)


def load_path(build, path, **options):
    for table in TABLES:
        if table not in RUN_TABLES and table.view_name is None:
            build.connection.execute(f"DELETE FROM {table.name}")
    with Reading(path, **options) as reading:
        load_trace(build.connection, reading, 0)
    fill_threads(build.connection)
    return Loaded(build.connection)


@cache
def database():
    return duckdb.connect()


def rows_of(blocks):
    """Return the columns of each event that are not NULL."""
    if not blocks:
        return []
    arrays = iter([*(block.array for block in blocks), None])
    with blocks[0].stream(lambda: next(arrays)) as stream:
        database().register("events", stream)
        relation = database().execute("FROM events")
        names = [column[0] for column in relation.description]
        rows = relation.fetchall()
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of the events in a text, and the reports about the rest."""

    rows: list[dict[str, Any]]
    text: ChromeTraceReader
    faults: Faults
    metadata: dict[str, object]
    largest_block: int

    @property
    def names(self):
        return [row["name"] for row in self.rows]

    @property
    def rejected(self):
        return [(piece.byte_offset, piece.reason) for piece in self.faults.rejected]

    @property
    def repaired(self):
        return [(r.byte_offset, r.event_id, r.reason) for r in self.faults.repaired]


class MemoryStream(ByteStream):
    """A stream of bytes in memory, in chunks of a given size."""

    def __init__(self, content, chunk_bytes):
        super().__init__(Path("memory"))
        self._content = content
        self._chunk_bytes = chunk_bytes

    def __iter__(self):
        for start in range(0, len(self._content), self._chunk_bytes):
            chunk = self._content[start : start + self._chunk_bytes]
            self.text_bytes += len(chunk)
            yield chunk


def split_stream(stream, block_bytes=BLOCK_BYTES):
    reader = ChromeTraceReader(stream, block_bytes=block_bytes)
    blocks = [*reader.blocks()]
    largest = max((block.row_count for block in blocks), default=0)
    return Split(rows_of(blocks), reader, reader.faults, reader.metadata(), largest)


@pytest.fixture(scope="session")
def split():
    """Return a function that splits bytes into rows, in blocks and chunks of a given size."""

    def split_bytes(content, block_bytes=BLOCK_BYTES, chunk_bytes=1 << 20):
        return split_stream(MemoryStream(content, chunk_bytes), block_bytes)

    return split_bytes


@pytest.fixture(scope="session")
def split_file():
    """Return a function that splits a file into rows and decompresses it first if needed."""

    def split_path(path, block_bytes=BLOCK_BYTES):
        return split_stream(ByteStream(path), block_bytes)

    return split_path
