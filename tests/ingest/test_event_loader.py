"""Events that were read get into the store, or an error gets out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tracekit.database import Build, build_temporary
from tracekit.ingest.chrome_trace import ChromeTraceReader
from tracekit.ingest.event_collector import EventCollector, EventRows
from tracekit.ingest.event_loader import EventLoader
from tracekit.ingest.reading import Reading


@pytest.fixture
def own_build() -> Iterator[Build]:
    """A store of the test's own, which it may spoil."""
    with build_temporary() as build:
        yield build


def event(number: int, **members: Any) -> dict[str, Any]:
    return {"ph": "X", "name": f"op{number}", "pid": 1, "tid": 2, "ts": number, "dur": 1, **members}


class Reader:
    """Makes blocks of events, and a loader for them."""

    def __init__(self, *, is_compiled: bool) -> None:
        self._collector = EventCollector(is_compiled=is_compiled)
        if self._collector.is_compiled != is_compiled:
            pytest.skip("the parser is not compiled: there was no C compiler at installation")

    def block(self, first: int, count: int) -> EventRows:
        for number in range(first, first + count):
            text = json.dumps(event(number)).encode()
            self._collector.event_count = number
            self._collector.read_events([(text, 0)])
        rows = self._collector.take()
        assert rows is not None
        assert rows.row_count == count
        return rows

    def loader(self, build: Build, trace_id: int) -> EventLoader:
        return EventLoader(build.connection, trace_id)


@pytest.fixture(params=["compiled", "python"])
def reader(request: pytest.FixtureRequest) -> Reader:
    return Reader(is_compiled=request.param == "compiled")


def add_all(loader: EventLoader, parts: Iterable[EventRows]) -> None:
    """Add one after the other; the first ones may go before the statement has failed."""
    for part in parts:
        loader.add(part)


def rows(build: Build) -> list[tuple[Any, ...]]:
    return build.connection.execute("SELECT trace_id, event_id, name, ts_ns FROM record").fetchall()


def test_events_arrive_in_order(own_build: Build, reader: Reader) -> None:
    loader = reader.loader(own_build, 3)
    for first in range(0, 5000, 100):
        loader.add(reader.block(first, 100))
    loader.wait()
    loader.close()
    assert rows(own_build) == [(3, number, f"op{number}", 1000 * number) for number in range(5000)]


def test_one_file_goes_behind_another(own_build: Build, reader: Reader) -> None:
    for trace_id in (0, 1):
        loader = reader.loader(own_build, trace_id)
        loader.add(reader.block(0, 2))
        loader.wait()
        loader.close()
    assert [row[:2] for row in rows(own_build)] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_file_without_such_events_costs_nothing(own_build: Build, reader: Reader) -> None:
    loader = reader.loader(own_build, 0)
    loader.wait()
    loader.close()
    assert rows(own_build) == []


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_stopped_leaves_nothing(own_build: Build, reader: Reader, count: int) -> None:
    loader = reader.loader(own_build, 0)
    for first in range(count):
        loader.add(reader.block(first, 1))
    loader.close()
    assert rows(own_build) == []


def test_an_error_of_the_store_is_raised(own_build: Build, reader: Reader) -> None:
    own_build.connection.execute("DROP TABLE record CASCADE")
    loader = reader.loader(own_build, 0)
    try:
        with pytest.raises(duckdb.CatalogException, match="record"):
            add_all(loader, map(reader.block, range(1000), repeat(1)))
        with pytest.raises(duckdb.CatalogException, match="record"):
            loader.wait()
    finally:
        loader.close()


class FullMemory:
    """A cursor whose transactions find no memory at their end."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def execute(self, *_: object) -> None:
        raise duckdb.TransactionException("Failed to commit: failed to pin block of size 256.0 KiB")


def test_a_transaction_that_finds_no_memory_at_its_end(own_build: Build) -> None:
    loader = Reader(is_compiled=True).loader(own_build, 0)
    loader._cursor = FullMemory(loader._cursor)  # type: ignore[assignment]
    try:
        loader.add(Reader(is_compiled=True).block(0, 1))
        with pytest.raises(duckdb.OutOfMemoryException, match="failed to pin block"):
            loader.wait()
    finally:
        loader.close()


def test_events_that_were_taken_before_are_no_end(own_build: Build) -> None:
    reader = Reader(is_compiled=True)
    loader = reader.loader(own_build, 0)
    twice = reader.block(0, 1)
    try:
        with pytest.raises(duckdb.Error, match="taken before"):
            add_all(loader, repeat(twice, 1000))
    finally:
        loader.close()
    assert rows(own_build) == []


def test_the_memory_of_columns_goes_with_the_last_block(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(json.dumps([event(0)]))
    with Reading(tmp_path / "trace.json") as reading:
        assert [block.row_count for block in reading.blocks()] == [1]
        reader = reading.reader
    assert isinstance(reader, ChromeTraceReader)
    # A reading is in a cycle: what it holds may live on.
    assert not reader._collector.is_compiled
    assert reader.event_count == 1
