"""What the tests of ingest share: loading without a store, splitting without a database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tracekit.database import Build, build_temporary
from tracekit.ingest import chrome_json
from tracekit.ingest import load as load_module
from tracekit.ingest import reading as reading_module
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.chrome_json import BLOCK_BYTES, EXTRA_KEY, TraceText
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
def load_by(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[bool], Load]:
    """Return what makes the function `load`, with or without the compiled parser."""

    def make(is_compiled: bool) -> Load:
        if is_compiled and chrome_json.parse_events is None:
            pytest.skip("the parser is not compiled: there was no C compiler at installation")

        def load_text(
            content: str | bytes, name: str = "trace.json", block_bytes: int = BLOCK_BYTES
        ) -> Loaded:
            path = tmp_path / name
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            for table in TABLES:
                if table not in RUN_TABLES and table.kind is None:
                    build.connection.execute(f"DELETE FROM {table.name}")
            monkeypatch.setattr(
                reading_module,
                "TraceText",
                lambda stream, *_: TraceText(stream, block_bytes, is_compiled=is_compiled),
            )
            with reading_module.Reading(path) as reading:
                load_module.load_trace(build.connection, reading, 0, build.folder)
            fill_threads(build.connection)
            return Loaded(build.connection)

        return load_text

    return make


@pytest.fixture(params=["compiled", "text"])
def load(request: pytest.FixtureRequest, load_by: Callable[[bool], Load]) -> Load:
    """Return a function that loads the text of a file and returns its tables, until the next load.

    `name` is the file's name, `block_bytes` the size of the blocks it is read in. Both ways of
    reading are tried: with the compiled parser, and in Python and SQL alone.
    """
    return load_by(request.param == "compiled")


@pytest.fixture
def load_as_text(load_by: Callable[[bool], Load]) -> Load:
    """Return `load` without the compiled parser."""
    return load_by(False)


@dataclass(frozen=True, slots=True)
class Split:
    """What the splitter makes of a text: events with offsets, and what it says of the rest."""

    events: list[tuple[int, Any]]
    text: TraceText
    metadata: dict[str, object]
    block_sizes: list[int]

    @property
    def rejected(self) -> list[tuple[int, str]]:
        return [(piece.byte_offset, piece.reason) for piece in self.text.rejected]

    @property
    def repaired(self) -> list[tuple[int, int, str]]:
        return [(row.byte_offset, row.event_id, row.reason) for row in self.text.repaired]


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
    text = TraceText(stream, block_bytes, is_compiled=False)
    events: list[tuple[int, Any]] = []
    block_sizes: list[int] = []
    for block in text.blocks():
        block_sizes.append(len(block.text))
        assert block.first_event_id == len(events)
        found = [(offset, json.loads(event)) for event, offset in block.events()]
        assert len(found) == block.event_count
        assert json.loads(bytes(block.text)) == [event for _, event in found]
        for offset, event in found:
            # Members without a column travel apart.
            events.append((offset, event | event.pop(EXTRA_KEY, {})))
    metadata = text.metadata()
    assert text.event_count == len(events)
    return Split(events, text, metadata, block_sizes)


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
