"""Streams of arrays that the compiled parser gives to DuckDB."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

parser: Any = pytest.importorskip(
    "tracekit.ingest._event_parser",
    reason="the parser is not compiled: there was no C compiler at installation",
)

X = '"ph":"X","ts":1,"dur":2'


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def array_of(count: int, first_event_id: int = 0) -> Any:
    text = "[" + ",".join([f"{{{X}}}"] * count) + "]"
    return parser.parse_events(text.encode(), first_event_id)[0]


def read_stream(connection: duckdb.DuckDBPyConnection, get_next: Callable[[], Any]) -> list[int]:
    """Read the numbers of all events."""
    connection.register("events", parser.event_stream(get_next))
    try:
        return [number for (number,) in connection.sql("SELECT event_id FROM events").fetchall()]
    finally:
        connection.unregister("events")


def test_a_stream_of_several_arrays(connection: duckdb.DuckDBPyConnection) -> None:
    arrays = iter([array_of(1), array_of(5000, 1), array_of(2, 5001), None])
    assert read_stream(connection, lambda: next(arrays)) == list(range(5003))


def test_an_empty_stream(connection: duckdb.DuckDBPyConnection) -> None:
    assert read_stream(connection, lambda: None) == []


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("the disk is gone"), "the disk is gone"),
        (ValueError("é" * 1000), "é" * 1000),
        (KeyError("\ud800"), "without a text|ud800"),
    ],
)
def test_an_exception_ends_the_statement(
    connection: duckdb.DuckDBPyConnection, error: Exception, text: str
) -> None:
    arrays = iter([array_of(1)])

    def get_next() -> Any:
        for array in arrays:
            return array
        raise error

    with pytest.raises(duckdb.Error, match=text):
        read_stream(connection, get_next)
    assert connection.sql("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("array", [5, "array", object()])
def test_what_is_no_array_ends_the_statement(
    connection: duckdb.DuckDBPyConnection, array: object
) -> None:
    with pytest.raises(duckdb.Error, match="PyCapsule"):
        read_stream(connection, lambda: array)


def test_an_array_is_taken_once(connection: duckdb.DuckDBPyConnection) -> None:
    array = array_of(3)
    with pytest.raises(duckdb.Error, match="taken before"):
        read_stream(connection, lambda: array)


def test_what_is_not_used_is_let_go() -> None:
    """Neither a stream nor an array need be read."""

    class Source:
        def __call__(self) -> None:
            return None

    source = Source()
    gone = weakref.ref(source)
    stream = parser.event_stream(source)
    del source
    assert gone() is not None
    del stream
    assert gone() is None
    for _ in range(100):
        array_of(10)
