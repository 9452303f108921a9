"""What the tests of ingest share: loading without a store, splitting without a database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from tracekit.database import Build, build_temporary
from tracekit.ingest.array_frames import BLOCK_BYTES, TraceText
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.chrome_trace import ChromeTraceReader
from tracekit.ingest.event_collector import EventCollector, compiled_columns
from tracekit.ingest.faults import Faults
from tracekit.ingest.json_values import array_end, items
from tracekit.ingest.load import load_trace
from tracekit.ingest.reading import Reading
from tracekit.ingest.threads import fill_threads
from tracekit.schema import RUN_TABLES, TABLES

EVENT_TABLES = ("event", "flow", "instant", "counter", "memory", "metadata", "span_end")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The ingested tables of one file."""

    connection: duckdb.DuckDBPyConnection

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(text).fetchall()

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """All that the events of the file said, and nothing of how the file was written."""
        tables = (*EVENT_TABLES, "thread", "device", "process_group")
        return {table: self.sql(f"FROM {table} ORDER BY ALL") for table in tables}

    @property
    def names(self) -> list[str]:
        return [name for (name,) in self.sql("SELECT name FROM event ORDER BY event_id")]

    @property
    def rejected(self) -> list[tuple[int, int | None, str]]:
        return self.sql("SELECT byte_offset, event_id, reason FROM rejected ORDER BY byte_offset")

    @property
    def repaired(self) -> list[tuple[int, int, str]]:
        return self.sql("SELECT byte_offset, event_id, reason FROM repaired ORDER BY byte_offset")

    @property
    def truncation(self) -> str | None:
        ((is_truncated, reason),) = self.sql("SELECT is_truncated, truncation_reason FROM trace")
        assert is_truncated == (reason is not None)
        return reason


@pytest.fixture(scope="session")
def build() -> Iterator[Build]:
    """Return a store that every load begins anew: making one takes longer than most loads."""
    with build_temporary() as build:
        build.connection.execute("SET threads = 1")
        yield build


Load = Callable[..., Loaded]


@pytest.fixture
def load_by(build: Build, tmp_path: Path) -> Callable[[bool], Load]:
    """Return what makes the function `load`, with or without the compiled parser."""

    def make(is_compiled: bool) -> Load:
        if is_compiled and compiled_columns() is None:
            pytest.skip("the parser is not compiled: there was no C compiler at installation")

        def load_text(
            content: str | bytes, name: str = "trace.json", block_bytes: int = BLOCK_BYTES
        ) -> Loaded:
            path = tmp_path / name
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            for table in TABLES:
                if table not in RUN_TABLES and table.view_name is None:
                    build.connection.execute(f"DELETE FROM {table.name}")
            read = partial(ChromeTraceReader, is_compiled=is_compiled, block_bytes=block_bytes)
            with Reading(path, read=read) as reading:
                load_trace(build.connection, reading, 0)
            fill_threads(build.connection)
            return Loaded(build.connection)

        return load_text

    return make


@pytest.fixture(params=["compiled", "python"])
def load(request: pytest.FixtureRequest, load_by: Callable[[bool], Load]) -> Load:
    """Return a function that loads the text of a file and returns its tables, until the next load.

    `name` is the file's name, `block_bytes` the size of the blocks it is read in. Both readers are
    tried: the compiled one with the one in Python behind it, and the latter alone.
    """
    return load_by(request.param == "compiled")


class FoundEvents(EventCollector):
    """Keeps the events that are found in a text, with their offsets, whatever they say."""

    def __init__(self) -> None:
        super().__init__(is_compiled=False)
        self.events: list[tuple[int, Any]] = []
        self.array_sizes: list[int] = []

    def read_array(self, text: memoryview, base: int) -> int | None:
        whole = bytes(text)
        try:
            found = list(items(whole, base))
        except RecursionError:
            return None
        except msgspec.DecodeError as error:
            end = array_end(whole, error)
            if end is None:
                return None
            whole = whole[: end + 1]
            found = list(items(whole, base))
        self.array_sizes.append(len(whole))
        self.read_events(found)
        return len(whole) - 1

    def read_event(self, text: bytes, offset: int, event_id: int) -> None:
        assert event_id == len(self.events)
        self.events.append((offset, json.loads(text)))


@dataclass(frozen=True, slots=True)
class Split:
    """What is found in a text: events with offsets, and what is said of the rest."""

    events: list[tuple[int, Any]]
    text: TraceText
    faults: Faults
    metadata: dict[str, object]
    array_sizes: list[int]

    @property
    def rejected(self) -> list[tuple[int, str]]:
        return [(piece.byte_offset, piece.reason) for piece in self.faults.rejected]

    @property
    def repaired(self) -> list[tuple[int, int, str]]:
        return [(r.byte_offset, r.event_id, r.reason) for r in self.faults.repaired]


class MemoryStream(ByteStream):
    """A stream of bytes that are not in a file."""

    def __init__(self, content: bytes, chunk_bytes: int) -> None:
        super().__init__(Path("memory"))
        self._content = content
        self._chunk_bytes = chunk_bytes

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._content), self._chunk_bytes):
            chunk = self._content[start : start + self._chunk_bytes]
            self.text_bytes += len(chunk)
            yield chunk


@pytest.fixture(scope="session")
def stream_of() -> Callable[[bytes, int], ByteStream]:
    """Return a function that makes a stream of bytes, which come in chunks of a given size."""
    return MemoryStream


def split_stream(stream: ByteStream, block_bytes: int = BLOCK_BYTES) -> Split:
    collector = FoundEvents()
    text = TraceText(stream, collector, block_bytes)
    for _ in text.read():
        pass
    metadata = text.metadata()
    assert collector.event_count == len(collector.events)
    return Split(collector.events, text, collector.faults, metadata, collector.array_sizes)


@pytest.fixture(scope="session")
def split() -> Callable[..., Split]:
    """Return a function that splits bytes into events, in blocks and chunks of a given size."""

    def split_bytes(
        content: bytes, block_bytes: int = BLOCK_BYTES, chunk_bytes: int = 1 << 20
    ) -> Split:
        return split_stream(MemoryStream(content, chunk_bytes), block_bytes)

    return split_bytes


@pytest.fixture(scope="session")
def split_file() -> Callable[..., Split]:
    """Return a function that splits a file into events, unpacking it first if it is packed."""

    def split_path(path: Path, block_bytes: int = BLOCK_BYTES) -> Split:
        return split_stream(ByteStream(path), block_bytes)

    return split_path
