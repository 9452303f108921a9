"""What the compiled parser accepts, where it stops, and what it hands over.

That it reads as the reader in Python does is tested in test_two_readers.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import duckdb
import pytest

from tracekit.ingest import array_frames
from tracekit.ingest.array_frames import TraceText
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.event_collector import EventCollector, compiled_columns
from tracekit.ingest.faults import Faults

_event_parser = pytest.importorskip(
    "tracekit.ingest._event_parser",
    reason="the parser is not compiled: there was no C compiler at installation",
)


def parse(text: str | bytes, first_event_id: int = 0) -> tuple[Any, tuple[Any, ...], list[bytes]]:
    """Parse the text of an array.

    Returns the columns, what the parser says, and the events that it handed over.
    """
    odd: list[bytes] = []

    def read_odd(event: bytes, at: int, event_id: int) -> bool:
        assert data[at : at + len(event)] == event
        assert event_id >= first_event_id + len(odd)
        odd.append(event)
        return True

    data = text.encode() if isinstance(text, str) else text
    columns = compiled_columns()
    assert columns is not None
    return columns, columns.read(data, first_event_id, read_odd), odd


def said(text: str | bytes) -> tuple[Any, ...]:
    """Parse the text of an array; returns events, bytes used, why it stopped."""
    return parse(text)[1]


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


def read(text: str | bytes, first_event_id: int = 0) -> list[dict[str, Any]] | None:
    """Parse the text of an array; returns its events, None where not all of them are read."""
    columns, (_, _, stop), odd = parse(text, first_event_id)
    return None if odd or stop == "damaged" or columns.row_count == 0 else rows_in(columns)


X = '"ph":"X","ts":1,"dur":2'
READ_X = {"event_id": 0, "view_name": "event", "ph": "X", "ts_ns": 1000, "dur_ns": 2000}


@pytest.mark.parametrize(
    ("members", "columns"),
    [
        ("", {}),
        ('"name":"é\\n\\u00e9\\ud83d\\ude00\\/"', {"name": "é\né😀/"}),
        (
            r'"name":"\u007f\u0080\u07ff\u0800\uffff\ud800\udc00"',
            {"name": "\x7f\x80\u07ff\u0800\uffff\U00010000"},
        ),
        ('"name":5,"cat":""', {"name": "5", "category": ""}),
        ('"name":null,"cat":null,"pid":null', {}),
        ('"pid":1,"tid":"2"', {"pid": 1, "tid": 2}),
        ('"pid":-7,"tid":"0x1F"', {"pid": -7, "tid": 31}),
        (
            '"pid":"Spans","tid":7',
            {"pid_text": "Spans", "tid": 7, "extra": '{"pid":"Spans","tid":"7"}'},
        ),
        ('"tid":"a\\"b"', {"tid_text": 'a"b', "extra": r'{"tid":"a\"b"}'}),
        ('"tid":""', {"tid_text": "", "extra": '{"tid":""}'}),
        ('"id":7,"bp":"e"', {"id": "7", "binding": "e", "extra": '{"id":"7","bp":"e"}'}),
        ('"cname":"x","sf":[ 1, {"a" :2.50} ]', {"extra": '{"cname":"x","sf":[1,{"a":2.50}]}'}),
        ('"args":{ }', {"args": "{}"}),
        ('"args":{"a": 1.10, "b" :[ ]}', {"args": '{"a":1.10,"b":[]}'}),
        ('"args":{"é":"\\u00e9\\u0007\\/"}', {"args": r'{"é":"é\u0007/"}'}),
        (r'"args":{"a":"\u001f\u0020"}', {"args": r'{"a":"\u001F "}'}),
        ('"args":{"a":12345678901234567890.123}', {"args": '{"a":12345678901234567890.123}'}),
        (
            '"args":{"External id":1,"stream":"7","device":"0xf","Python id":null}',
            {"external_id": 1, "stream": 7, "device": 15}
            | {"args": '{"External id":1,"stream":"7","device":"0xf","Python id":null}'},
        ),
        ('"args":{"external id":9}', {"external_id": 9, "args": '{"external id":9}'}),
        ('"args":{"correlation":0}', {"args": '{"correlation":0}'}),
        ('"args":{"correlation":5}', {"correlation": 5, "args": '{"correlation":5}'}),
    ],
)
def test_an_event(members: str, columns: dict[str, Any]) -> None:
    found = read(f"[{{{X}{members and ','}{members}}}]")
    assert found == [{**READ_X, "name": "", **columns}]


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ('{"ph":"s","ts":1,"id":7}', "flow"),
        ('{"ph":"t","ts":1,"id":"0x7"}', "flow"),
        ('{"ph":"f","ts":1,"bp":"e"}', "flow"),
        ('{"ph":"i","ts":1,"s":"g"}', "instant"),
        ('{"ph":"i","ts":1,"name":"[memory]"}', "memory"),
        ('{"ph":"C","ts":1}', "counter"),
        ('{"ph":"M"}', "metadata"),
        ('{"ph":"s","ts":1,"id":"a7"}', None),
        ('{"ph":"i","ts":1,"name":"[memory\\u005d"}', None),
        ('{"ph":"i"}', None),
        ('{"ph":"B","ts":1}', "event"),
        ('{"ph":"b","ts":1,"id":"0x7"}', "event"),
        ('{"ph":"E","ts":1}', "span_end"),
        ('{"ph":"e","ts":1,"id":7}', "span_end"),
        ('{"ph":"B","ts":1,"dur":1}', None),
        ('{"ph":"X","ts":1}', None),
        ('{"ph":"S","ts":1}', None),
        ('{"ph":5,"ts":1}', None),
        ('{"ph":"","ts":1}', None),
        ('{"ts":1}', None),
        ("{}", None),
    ],
)
def test_kinds(event: str, kind: str | None) -> None:
    found = read(f"[{event}]")
    assert (found and found[0]["view_name"]) == kind


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        ("0", 0),
        ("-0", 0),
        ("5", 5000),
        ('"5.5"', 5500),
        ("-12.345", -12345),
        ("1700000000123456.789", 1_700_000_000_123_456_789),
        ("0.0004999", 0),
        ("0.00050001", 1),
        ("1.9996", 2000),
        ("4000000000000000", 4 * 10**18),
        ("-400000000000000", -4 * 10**17),
        ("0.0005", None),
        ("4000000000000000.001", None),
        ("-400000000000000.001", None),
        ("10000000000000000", None),
        ("1e3", None),
        ("NaN", None),
        ("null", None),
        ("true", None),
        ('""', None),
        ('"-"', None),
        ('"1."', None),
        ('".5"', None),
        ('" 1"', None),
        ('"1_0"', None),
        ('"\\u0031"', None),
    ],
)
def test_times(written: str, ns: int | None) -> None:
    found = read(f'[{{"ph":"i","ts":{written}}}]')
    assert (found and found[0]["ts_ns"]) == ns


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        ("0", 0),
        ("0.001", 1),
        ("999999999999.999", 10**15 - 1),
        ("1000000000000", None),
        ("-1", None),
        ("-0.0001", None),
        ("null", None),
    ],
)
def test_durations(written: str, ns: int | None) -> None:
    found = read(f'[{{"ph":"X","ts":1,"dur":{written}}}]')
    assert (found and found[0]["dur_ns"]) == ns


@pytest.mark.parametrize(
    "members",
    [
        '"pid":1.5',
        '"pid":true',
        '"pid":" 5"',
        '"pid":"007"',
        '"pid":"5a"',
        '"tid":-0',
        '"tid":1234567890123456789',
        '"tid":"0x1234567890abcdef"',
        '"tid":[1]',
        '"name":["a"]',
        '"name":true',
        '"name":"\\ud800"',
        '"name":"\\u0000"',
        '"name":"\\x"',
        '"name":"a\tb"',
        '"name":-0',
        '"cat":1.50',
        '"name":"a","name":"a"',
        '"cname":1,"cname":1',
        '"\\u006eame":"a"',
        '"args":null',
        '"args":{"\\u00e9":1}',
        '"args":[]',
        '"args":{},"args":{}',
        '"args":{"stream":1.5}',
        '"args":{"stream":[]}',
        '"args":{"stream":1,"stream":1}',
        '"args":{"External id":1,"external id":1}',
        '"args":{"a":NaN}',
        '"args":{"a":01}',
        '"args":{"a":1,}',
        '"args":{"a" 1}',
        '"args":{a:1}',
        '"args":{"a":' + "[" * 200 + "]" * 200 + "}",
        ",".join(f'"m{number}":1' for number in range(17)),
        '"name":"a" "cat":"b"',
        '"name":',
        '"name":"a",',
    ],
)
def test_what_is_left_to_the_thorough_way(members: str) -> None:
    assert read(f"[{{{X},{members}}}]") is None


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (b"", (0, 1, "damaged")),
        (b"[", (0, 1, "more")),
        (b"[ ", (0, 1, "more")),
        (b"[]", (0, 2, "ended")),
        (b"[ ] ,", (0, 3, "ended")),
        (b"[1]", (0, 1, "damaged")),
        (b'[{"ph":"M"},]', (0, 1, "damaged")),
        (b'[{"ph":"M"},{"ph":"M"},]', (1, 12, "damaged")),
        (b'[{"ph":"M"} {"ph":"M"}]', (0, 1, "damaged")),
        (b'[{"ph":"M"},null]', (0, 1, "damaged")),
        (b'[{"ph":"M"}}', (0, 1, "damaged")),
        (b'[{"ph":"M","name":"\xff"}]', (0, 1, "damaged")),
        (b'[{"ph":"M","name":"\xed\xa0\x80"}]', (0, 1, "damaged")),
        (b'[{"ph":"M","name":"\xc0\x80"}]', (0, 1, "damaged")),
    ],
)
def test_where_it_stops(text: bytes, outcome: tuple[int, int, str]) -> None:
    assert said(text) == outcome


def test_an_odd_event_is_handed_over_alone() -> None:
    texts = ['{"ph":"M"}', '{"ph":"M"}', '{ "ph":"P" }', '{"ph":"M"}']
    columns, outcome, odd = parse(f"[{','.join(texts)}]", 7)
    assert odd == [b'{ "ph":"P" }']
    assert outcome == (4, 47, "ended")
    assert [row["event_id"] for row in rows_in(columns)] == [7, 8, 10]


SHORT = (
    '[{"ph":"X","ts":1.5,"dur":2,"name":"é\\n","args":{"a":[1,{"b":-2.5e3}],"c":null}} ,\n'
    '  {"ph":"M","pid":"text","cname":true},{ "ph" : "i" , "ts" : "3" , "id" : 12 }\n ] , "x": 1}'
).encode()
BEGINS = [match.start() for match in re.finditer(rb'\{ ?"ph"', SHORT)]
END = SHORT.index(b"] ,") + 1


def test_every_beginning_of_an_array() -> None:
    """An event counts when its successor has begun, which is then where the next text begins."""
    for cut in range(len(SHORT) + 1):
        begun = [begin for begin in BEGINS if begin < cut]
        if cut >= END:
            expected = (3, END, "ended")
        elif len(begun) > 1:
            expected = (len(begun) - 1, begun[-1], "more")
        else:
            assert said(SHORT[:cut]) == (0, 1, "more" if cut else "damaged")
            continue
        assert said(SHORT[:cut]) == expected
        rest = b"[" + SHORT[expected[1] :]
        together = read(SHORT[:cut]) + ([] if cut >= END else read(rest, expected[0]))
        assert together == read(SHORT)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000])
def test_no_event_is_lost_between_two_texts(
    stream_of: Callable[[bytes, int], ByteStream],
    monkeypatch: pytest.MonkeyPatch,
    chunk_bytes: int,
) -> None:
    """Whatever piece of a file is there when the parser is called."""
    monkeypatch.setattr(array_frames, "_HEAD_BYTES", 1)
    content = b'{"traceEvents": ' + SHORT[:END] + b"}"
    for block_bytes in range(1, len(content)):
        collector = EventCollector()
        text = TraceText(stream_of(content, chunk_bytes), collector, block_bytes)
        rows = [collector.take() for _ in text.read()]
        assert sum(block.row_count for block in rows if block is not None) == 3
        assert collector.event_count == 3
        assert (collector.faults, text.truncation) == (Faults(), None)


@pytest.mark.parametrize("text", ["[]", [], None, 5])
def test_other_arguments_are_an_error(text: object) -> None:
    columns = compiled_columns()
    assert columns is not None
    with pytest.raises(TypeError):
        columns.read(text, 0, lambda *_: True)  # type: ignore[arg-type]
    with pytest.raises((TypeError, OverflowError)):
        columns.read(b"[]", 1 << 64, lambda *_: True)
    with pytest.raises(TypeError):
        columns.read(b"[]")  # type: ignore[call-arg]


ODD_ENDS = ('"', "\\", '\\"', "\x0c", "\x1a", "é", "{", "]", ":", ",", "7", "x", " ", "\n")


@pytest.mark.parametrize("shift", range(0, 64, 7))
def test_text_is_looked_at_alike_in_both_ways(shift: int) -> None:
    """Whatever stands at the seam of the 64 bytes that are looked at together."""
    args = '{"a\\\\\\"b": "\\\\", "c":[1.50 ,-2e3,{ }, "é\\u0007"] , "stream" : 7}'
    events = f'[{" " * shift}{{{X}, "name":"n\\\\\\\\", "args": {args}}}\n,\t'
    whole = events + events[1:] * 150 + f"{{{X}}}]"
    texts = [
        whole,
        *(events[:at] + odd + events[at:] for at in range(0, 90, 4) for odd in ODD_ENDS),
    ]
    try:
        for text in texts:
            seen = []
            for way in ("plain", "avx2"):
                _event_parser.look(way)
                columns, said_so, odd = parse(text)
                seen.append((said_so, odd, columns.row_count and rows_in(columns)))
            assert seen[0] == seen[1]
    finally:
        assert _event_parser.look("avx2") or _event_parser.look("plain")
    assert said(whole) == (152, len(whole.encode()), "ended")
    assert not _event_parser.look("another")
