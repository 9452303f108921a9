"""The columns of the compiled parser: what they are told, the rows they are given, their stream."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import duckdb
import pytest

from tracekit.event_description import EVENT_COLUMNS
from tracekit.ingest.event_collector import compiled_columns
from tracekit.ingest.event_reader import ROW_COLUMNS

parser: Any = pytest.importorskip(
    "tracekit.ingest._event_parser",
    reason="the parser is not compiled: there was no C compiler at installation",
)

EVENT = '{"ph":"X","ts":1,"dur":2}'


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def rows_in(columns: Any) -> list[dict[str, Any]]:
    """Return the columns of each event that are not null."""
    arrays = iter([columns.take(), None])
    connection = database()
    connection.register("events", columns.stream(lambda: next(arrays)))
    relation = connection.execute("FROM events")
    names = [column[0] for column in relation.description]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in relation.fetchall()
    ]


def row_of(**values: Any) -> tuple[Any, ...]:
    return tuple(values.get(name) for name in ROW_COLUMNS)


def test_the_row_of_an_odd_event_stands_in_its_place() -> None:
    columns = compiled_columns()
    assert columns is not None
    row = row_of(event_id=1, view_name="event", name="é", ts_ns=-5, stream=7, args='{"a":1}')
    text = b'[{"ph":"M"},{"ph":"P"},{"ph":"M"}]'
    assert columns.read(text, 0, lambda *_: row) == (3, len(text), "ended")
    assert columns.row_count == 3
    assert rows_in(columns) == [
        {"event_id": 0, "view_name": "metadata", "ph": "M"},
        {
            "event_id": 1,
            "view_name": "event",
            "name": "é",
            "ts_ns": -5,
            "stream": 7,
            "args": '{"a":1}',
        },
        {"event_id": 2, "view_name": "metadata", "ph": "M"},
    ]
    assert columns.take() is None


def test_what_is_found_to_be_no_event_stops_it() -> None:
    columns = compiled_columns()
    assert columns is not None
    text = b'[{"ph":"M"},{"ph":"P"},{"ph":"M"}]'
    assert columns.read(text, 0, lambda *_: False) == (1, 12, "damaged")
    with pytest.raises(KeyError, match="lost"):
        columns.read(text, 0, lambda *_: {}["lost"])


@pytest.mark.parametrize(
    "row",
    [
        (),
        [],
        None,
        row_of(),  # It has no kind.
        row_of(event_id="1", view_name="event"),
        row_of(event_id=1 << 64, view_name="event"),
        row_of(event_id=1, kind="strange"),
        row_of(event_id=1, view_name="event", name=5),
        row_of(event_id=1, view_name="event", name="\ud800"),
    ],
)
def test_what_is_no_row_is_an_error(row: Any) -> None:
    columns = compiled_columns()
    assert columns is not None
    with pytest.raises((TypeError, ValueError, OverflowError)):
        columns.append(row)
    columns.append(row_of(event_id=3, view_name="event", name="a"))
    assert rows_in(columns) == [{"event_id": 3, "view_name": "event", "name": "a"}]


def described(**changes: Any) -> tuple[Any, ...]:
    columns = {name: (name, "VARCHAR", "reader", (), None) for name in ROW_COLUMNS}
    columns |= {c.name: (c.name, c.type, c.source, c.keys, c.none) for c in EVENT_COLUMNS}
    return tuple(column for column in (columns | changes).values() if column is not None)


KINDS_OF = (("event", "X", None), ("flow", "s", None), ("metadata", "M", None))


@pytest.mark.parametrize(
    ("columns", "kinds", "message"),
    [
        (described(name=None), KINDS_OF, "not described: name"),
        (described(name=("name", "BIGINT", "member", ("name",), None)), KINDS_OF, "another type"),
        (described(name=("name", "BLOB", "member", ("name",), None)), KINDS_OF, "this type"),
        (described(name=("name", "VARCHAR", "member", (), None)), KINDS_OF, "no key"),
        (described(new=("new", "BIGINT", "member", ("new",), None)), KINDS_OF, "no code for: new"),
        (described(new=("name", "VARCHAR", "member", ("a",), None)), KINDS_OF, "there twice"),
        (described(new=("new", "JSON", "argument", ("a",), None)), KINDS_OF, "another type"),
        (described(new=("new", "BIGINT", "argument", ("a" * 99,), None)), KINDS_OF, "too long"),
        (described(), KINDS_OF[:1], "flow or metadata"),
    ],
)
def test_a_description_it_cannot_follow_is_refused(
    columns: tuple[Any, ...], kinds: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parser.Columns(columns, kinds, (0, 1, 1))


def test_arguments_are_those_of_the_description() -> None:
    """Another argument with a column is read without a change of the parser."""
    columns = parser.Columns(
        described(queued=("queued", "BIGINT", "argument", ("queued", "Queued"), -1)),
        KINDS_OF,
        (0, 10, 10),
    )
    text = b'[{"ph":"M","args":{"Queued":5}},{"ph":"M","args":{"queued":-1}},{"ph":"X","ts":11}]'
    odd: list[bytes] = []
    columns.read(text, 0, lambda event, *_: odd.append(event) or True)
    assert [row.get("queued") for row in rows_in(columns)] == [5, None]
    # Beyond the bounds that were given.
    assert odd == [b'{"ph":"X","ts":11}']


# -- streams -----------------------------------------------------------------------------------


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


COLUMNS: Any = compiled_columns()


def array_of(count: int, first_event_id: int = 0) -> Any:
    text = "[" + ",".join([EVENT] * count) + "]"
    COLUMNS.read(text.encode(), first_event_id, lambda *_: True)
    return COLUMNS.take()


def read_stream(connection: duckdb.DuckDBPyConnection, get_next: Callable[[], Any]) -> list[int]:
    """Read the numbers of all events."""
    connection.register("events", COLUMNS.stream(get_next))
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
    stream = COLUMNS.stream(source)
    del source
    assert gone() is not None
    del stream
    assert gone() is None
    for _ in range(100):
        array_of(10)
