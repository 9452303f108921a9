"""Events that came as columns get into the store, or an error gets out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tracekit.database import Build, build_temporary
from tracekit.ingest import byte_stream, chrome_json
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.chrome_json import Block, EventColumns, TraceText
from tracekit.ingest.column_loader import ColumnLoader

parser: Any = pytest.importorskip(
    "tracekit.ingest._event_parser",
    reason="the parser is not compiled: there was no C compiler at installation",
)


@pytest.fixture
def own_build() -> Iterator[Build]:
    """A store of the test's own, which it may spoil."""
    with build_temporary() as build:
        yield build


def event(number: int, **members: Any) -> dict[str, Any]:
    return {"ph": "X", "name": f"op{number}", "pid": 1, "tid": 2, "ts": number, "dur": 1, **members}


def columns(first: int, count: int) -> EventColumns:
    text = json.dumps([event(number) for number in range(first, first + count)]).encode()
    array, event_count, used, is_ended = parser.parse_events(text, first)
    assert (event_count, used, is_ended) == (count, len(text), True)
    return EventColumns(array, first, count)


def add_all(loader: ColumnLoader, parts: Iterable[EventColumns]) -> None:
    """Add one after the other; the first ones may go before the statement has failed."""
    for part in parts:
        loader.add(part)


def rows(build: Build) -> list[tuple[Any, ...]]:
    return build.connection.execute("SELECT trace_id, event_id, name, ts_ns FROM record").fetchall()


def test_events_arrive_in_order(own_build: Build) -> None:
    loader = ColumnLoader(own_build.connection, 3)
    for first in range(0, 5000, 100):
        loader.add(columns(first, 100))
    loader.wait()
    loader.close()
    assert rows(own_build) == [(3, number, f"op{number}", 1000 * number) for number in range(5000)]


def test_one_file_goes_behind_another(own_build: Build) -> None:
    for trace_id in (0, 1):
        loader = ColumnLoader(own_build.connection, trace_id)
        loader.add(columns(0, 2))
        loader.wait()
        loader.close()
    assert [row[:2] for row in rows(own_build)] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_file_without_such_events_costs_nothing(own_build: Build) -> None:
    loader = ColumnLoader(own_build.connection, 0)
    loader.wait()
    loader.close()
    assert rows(own_build) == []


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_stopped_leaves_nothing(own_build: Build, count: int) -> None:
    loader = ColumnLoader(own_build.connection, 0)
    for first in range(count):
        loader.add(columns(first, 1))
    loader.close()
    assert rows(own_build) == []


def test_an_error_of_the_store_is_raised(own_build: Build) -> None:
    own_build.connection.execute("DROP TABLE record CASCADE")
    loader = ColumnLoader(own_build.connection, 0)
    try:
        with pytest.raises(duckdb.CatalogException, match="record"):
            add_all(loader, map(columns, range(1000), repeat(1)))
        with pytest.raises(duckdb.CatalogException, match="record"):
            loader.wait()
    finally:
        loader.close()


def test_events_that_were_taken_before_are_no_end(own_build: Build) -> None:
    loader = ColumnLoader(own_build.connection, 0)
    twice = columns(0, 1)
    try:
        with pytest.raises(duckdb.Error, match="taken before"):
            add_all(loader, repeat(twice, 1000))
    finally:
        loader.close()
    assert rows(own_build) == []


@pytest.mark.parametrize("first_us", [0, 1_700_000_000_123_456], ids=["short way", "long way"])
def test_columns_and_text_in_one_file(
    load_by: Callable[[bool], Callable[..., Any]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    first_us: int,
) -> None:
    """The compiled parser reads all blocks of a file but those with an odd event."""
    monkeypatch.setattr(chrome_json, "_HEAD_BYTES", 100)
    monkeypatch.setattr(byte_stream, "CHUNK_BYTES", 100)
    events = [event(number, ts=first_us + number + 0.5) for number in range(1000)]
    events[300]["dur"] = -1
    events[301]["args"] = [1]
    events[500]["pid"] = " 1"
    events[700]["args"] = [1]
    content = json.dumps({"traceEvents": events}, indent=1)
    path = tmp_path / "split.json"
    path.write_text(content)
    blocks = list(TraceText(ByteStream(path), 2000).blocks())
    of_text = [block.event_count for block in blocks if isinstance(block, Block)]
    assert len(of_text) >= 3
    assert sum(of_text) < 200

    loaded = load_by(True)(content, block_bytes=2000)
    assert loaded.sql("SELECT event_id, name, ts_ns FROM event ORDER BY event_id") == [
        (number, f"op{number}", (first_us + number) * 1000 + 500)
        for number in range(1000)
        if number != 300
    ]
    [(offset, event_id, reason)] = loaded.rejected
    assert (event_id, reason) == (300, "negative dur")
    assert json.JSONDecoder().raw_decode(content[offset:])[0] == events[300]
    compiled = loaded.everything(), loaded.rejected
    loaded = load_by(False)(content, block_bytes=2000)
    assert (loaded.everything(), loaded.rejected) == compiled
