"""Usual events are read column by column, as the definition reads each of them."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tracekit.ingest import arrow_stream
from tracekit.ingest.event_collector import EventCollector
from tracekit.ingest.event_reader import ROW_COLUMNS, Row, read_event
from tracekit.ingest.json_values import compact, items
from tracekit.ingest.plain_columns import PlainColumns
from tracekit.ingest.reading import Reading
from tracekit.ingest.usual_events import UsualEvents, read_usual_events

REPO = Path(__file__).resolve().parents[2]

X = '{"ph": "X", "name": "k", "pid": 1, "tid": 2, "ts": 5, "dur": 1'
USUAL = {
    "a span": f"{X}}}",
    "times of each length": '{"ph": "X", "ts": 1700000000123456.7, "dur": 0.05}',
    "times with all digits": '{"ph": "X", "ts": 12.345, "dur": 0.001}',
    "arguments": f'{X}, "args": {{"External id": 3, "stream": 7, "x": [1.50, {{"y": "é"}}]}}}}',
    "the second spelling": f'{X}, "args": {{"external id": 3, "correlation": 0}}}}',
    "both spellings": f'{X}, "args": {{"External id": null, "external id": 4}}}}',
    "numbers as texts": f'{X}, "args": {{"stream": "0x1F", "device": "7", "Python id": "no"}}}}',
    "other escapes": f'{X}, "args": {{"a": "\\u00e9\\/\\n"}}}}',
    "more than ASCII": '{"ph": "X", "name": "é\U0001f600", "cat": "ü", "ts": 1, "dur": 2}',
    "a span without a name": '{"ph": "X", "ts": 1, "dur": 2}',
    "a thread that is a text": '{"ph": "X", "pid": 0, "tid": "stream 7", "ts": 1, "dur": 2}',
    "a number as a text": '{"ph": "X", "pid": "55", "tid": "5", "ts": 1, "dur": 2}',
    "a process that is a text": '{"ph": "X", "pid": "Spans", "tid": "é", "ts": 1, "dur": 2}',
    "a flow": '{"ph": "s", "id": 9, "pid": 1, "tid": 2, "ts": 5, "cat": "ac2g", "name": "ac2g"}',
    "its end": '{"ph": "f", "id": "9", "pid": 1, "tid": 2, "ts": 5, "bp": "e"}',
    "an instant": '{"ph": "i", "name": "mark", "ts": 5, "s": "t"}',
    "an allocation": '{"ph": "i", "name": "[memory]", "ts": 5, "s": "t", "args": {"Bytes": -8}}',
    "a counter": '{"ph": "C", "name": "c", "ts": 6, "pid": 7, "id": 3, "args": {"v": 1}}',
    "metadata": '{"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}}',
    "a begin": '{"ph": "B", "name": "b", "pid": 1, "tid": 2, "ts": 5, "dur": 7}',
    "an end": '{"ph": "E", "pid": 1, "tid": 2, "ts": 5}',
}
ODD = {
    "a member without a column": f'{X}, "cname": "good"}}',
    "a member twice": f'{X}, "pid": 3}}',
    "an escaped key": X.replace('"name"', '"n\\u0061me"') + "}",
    "an exponent": X.replace('"dur": 1', '"dur": 1e0') + "}",
    "a time in quotes": X.replace('"ts": 5', '"ts": "5"') + "}",
    "below a nanosecond": X.replace('"ts": 5', '"ts": 5.0005') + "}",
    "a time before": X.replace('"ts": 5', '"ts": -5.25') + "}",
    "a negative duration": X.replace('"dur": 1', '"dur": -1') + "}",
    "no duration": X.replace(', "dur": 1', "") + "}",
    "no start": X.replace(', "ts": 5', "") + "}",
    "an unknown phase": X.replace('"X"', '"q"') + "}",
    "a span with an id": f'{X}, "id": 4}}',
    "a flow whose id is a text": '{"ph": "s", "id": "0x7g", "ts": 5}',
    "args that are no object": f'{X}, "args": [1]}}',
    "a link with decimals": f'{X}, "args": {{"stream": 7.0}}}}',
    "a process beyond 64 bits": X.replace('"pid": 1', '"pid": 1' + "0" * 30) + "}",
    "a process beyond 63 bits": X.replace('"pid": 1', '"pid": 9223372036854775808') + "}",
    "a time of 5,000 digits": X.replace('"ts": 5', '"ts": ' + "5" * 5000) + "}",
    "a thread of 5,000 digits": X.replace('"tid": 2', '"tid": ' + "2" * 5000) + "}",
    "a link of 5,000 digits": f'{X}, "args": {{"stream": {"7" * 5000}}}}}',
    "a name that is a number": X.replace('"k"', "5") + "}",
}


def defined(texts: list[str]) -> list[Row | str]:
    """What the definition says of events."""
    return [read_event(text.encode(), number)[0] for number, text in enumerate(texts)]


def usual_rows(texts: list[str]) -> tuple[list[Row], list[int]]:
    """What is read column by column, and which events are left to the definition."""
    usual = read_usual_events(compact(f"[{','.join(texts)}]".encode()), 0)
    assert usual is not None
    return as_rows(usual.columns), usual.odd


def as_rows(columns: dict[str, Any]) -> list[Row]:
    def shown(value: Any) -> Any:
        return value.decode() if isinstance(value, bytes) else value

    by_name = (columns[name] for name in ROW_COLUMNS)
    return [tuple(map(shown, row)) for row in zip(*by_name, strict=True)]


@pytest.mark.parametrize("name", USUAL)
def test_a_usual_event_alone(name: str) -> None:
    assert usual_rows([USUAL[name]]) == (defined([USUAL[name]]), [])


def test_all_of_them_side_by_side() -> None:
    texts = list(USUAL.values()) * 3
    assert usual_rows(texts) == (defined(texts), [])


@pytest.mark.parametrize("name", ODD)
def test_an_odd_event_is_left_to_the_definition(name: str) -> None:
    texts = [*USUAL.values(), ODD[name], *USUAL.values()]
    rows, odd = usual_rows(texts)
    place = len(USUAL)
    assert odd == [place]
    expected = defined(texts)
    assert rows[:place] + rows[place + 1 :] == expected[:place] + expected[place + 1 :]


def test_what_is_no_object_is_not_read_here() -> None:
    assert read_usual_events(b'[{"ph":"X"},5]', 0) is None
    assert read_usual_events(b"[5]", 0) is None


def test_no_events() -> None:
    usual = read_usual_events(b"[]", 0)
    assert usual is not None
    assert (usual.count, usual.odd) == (0, [])


TRACES = sorted([*(REPO / "sample_traces").rglob("*.gz"), *(REPO / "tests/traces").rglob("*.gz")])


@pytest.mark.parametrize("path", TRACES[::3], ids=str)
def test_in_real_traces_nearly_all_are_usual(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd_counts: list[int] = []
    replace = UsualEvents.replace

    def noting(self: UsualEvents, rows: Mapping[int, Row | None]) -> None:
        odd_counts.append(len(rows))
        replace(self, rows)

    monkeypatch.setattr(UsualEvents, "replace", noting)
    with Reading(path, is_compiled=False) as reading:
        row_count = sum(rows.row_count for rows in reading.blocks())
    assert row_count > 0
    assert sum(odd_counts) <= 0.01 * row_count


def collect(texts: list[str]) -> EventCollector:
    collector = EventCollector(is_compiled=False)
    text = f"[{','.join(texts)}]".encode()
    assert collector.read_array(memoryview(text), 0) == len(text) - 1
    return collector


def loaded(collector: EventCollector) -> list[Any]:
    """Read what was collected as DuckDB does: twice as much as is there is asked for."""
    waiting = [collector.take(), collector.take()]
    arrays = iter([rows.array for rows in waiting if rows is not None])
    stream = collector.stream(lambda: next(arrays, None))
    with duckdb.connect() as connection:
        connection.register("arrived", stream)
        return connection.execute(f"SELECT {', '.join(ROW_COLUMNS)} FROM arrived").fetchall()


def test_odd_events_keep_their_places() -> None:
    texts = []
    for usual in USUAL.values():
        texts += [usual, *ODD.values()]
    collector = collect(texts)
    expected = defined(texts)
    assert loaded(collector) == [row for row in expected if not isinstance(row, str)]
    rejected = [(number, row) for number, row in enumerate(expected) if isinstance(row, str)]
    assert [(piece.event_id, piece.reason) for piece in collector.faults.rejected] == rejected
    offsets = [offset for _, offset in items(f"[{','.join(texts)}]".encode(), 0)]
    for piece in collector.faults.rejected:
        assert piece.event_id is not None
        assert piece.byte_offset == offsets[piece.event_id]


def test_a_block_of_rejected_events_leaves_no_row() -> None:
    collector = collect([ODD["an unknown phase"]] * 5)
    assert collector.take() is None
    assert (collector.event_count, collector.faults.rejected_count) == (5, 5)


def test_single_events_and_blocks_stay_in_order() -> None:
    collector = EventCollector(is_compiled=False)
    texts = list(USUAL.values())
    for number, text in enumerate(texts):
        if number % 3:
            collector.read_events([(text.encode(), 0)])
        else:
            collector.read_array(memoryview(f"[{text}]".encode()), 0)
    assert loaded(collector) == defined(texts)


def register(stream: object, run: Callable[[duckdb.DuckDBPyConnection], object]) -> object:
    with duckdb.connect() as connection:
        connection.register("arrived", stream)
        return run(connection)


def count(connection: duckdb.DuckDBPyConnection) -> object:
    return connection.execute("SELECT count(*), count(name) FROM arrived").fetchall()


def test_nothing_is_held_when_streams_are_gone() -> None:
    """Neither of one that was read, nor of those that failed or that nobody read."""
    gc.collect()
    before = len(arrow_stream._held), len(arrow_stream._streams)
    for _ in range(3):
        columns = PlainColumns()
        row = defined([USUAL["arguments"]])[0]
        assert not isinstance(row, str)
        arrays = []
        for _ in range(4):
            columns.append(row)
            arrays.append(columns.take())
        waiting = iter(arrays)
        get_next = functools.partial(next, waiting, None)
        assert register(columns.stream(get_next), count) == [(4, 4)]
        with pytest.raises(duckdb.Error, match="taken before"):
            register(columns.stream(iter(arrays).__next__), count)
        columns.stream(lambda: None)
    gc.collect()
    assert (len(arrow_stream._held), len(arrow_stream._streams)) == before
