"""What the compiled parser accepts, and what it leaves to the thorough way."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tracekit.ingest import chrome_json, normalize
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.chrome_json import TraceText

parser: Any = pytest.importorskip(
    "tracekit.ingest._event_parser",
    reason="the parser is not compiled: there was no C compiler at installation",
)

REPO = Path(__file__).resolve().parents[2]
"""Larger traces take too long to be read twice here."""

"""More than 1: so many times the examples, and other ones each time."""


# -- both ways ---------------------------------------------------------------------------------


# -- the parser alone --------------------------------------------------------------------------


def parse(text: str | bytes) -> tuple[int, int, bool] | None:
    """Parse the text of an array; returns the number of events, the bytes used, whether it ends."""
    parsed = parser.parse_events(text.encode() if isinstance(text, str) else text, 0)
    return None if parsed is None else parsed[1:]


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def read(text: str | bytes, first_event_id: int = 0) -> list[dict[str, Any]] | None:
    """Parse the text of an array; returns the columns of each event that are not null."""
    data = text.encode() if isinstance(text, str) else text
    parsed = parser.parse_events(data, first_event_id)
    if parsed is None:
        return None
    arrays = iter([parsed[0], None])
    connection = database()
    connection.register("events", parser.event_stream(lambda: next(arrays)))
    relation = connection.execute("FROM events")
    names = [column[0] for column in relation.description]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in relation.fetchall()
    ]


X = '"ph":"X","ts":1,"dur":2'
READ_X = {"event_id": 0, "kind": "event", "phase": "X", "ts_ns": 1000, "dur_ns": 2000}


@pytest.mark.parametrize(
    ("members", "columns"),
    [
        ("", {}),
        ('"name":"é\\n\\u00e9\\ud83d\\ude00\\/"', {"name": "é\né😀/"}),
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
    assert (found and found[0]["kind"]) == kind


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
    "text",
    [
        b"",
        b"[",
        b"[]",
        b"[ ",
        b"[1]",
        b'[{"ph":"M"},]',
        b'[{"ph":"M"} {"ph":"M"}]',
        b'[{"ph":"M"},null]',
        b'[{"ph":"M"}}',
        b'[{"ph":"M","name":"\xff"}]',
        b'[{"ph":"M","name":"\xed\xa0\x80"}]',
        b'[{"ph":"M","name":"\xc0\x80"}]',
    ],
)
def test_texts_that_are_no_array_of_events(text: bytes) -> None:
    assert parse(text) is None


def test_an_odd_event_leaves_the_whole_text() -> None:
    assert parse('[{"ph":"M"},{"ph":"M"},{"ph":"P"},{"ph":"M"}]') is None


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
            expected = (3, END, True)
        elif len(begun) > 1:
            expected = (len(begun) - 1, begun[-1], False)
        else:
            assert parse(SHORT[:cut]) is None
            continue
        assert parse(SHORT[:cut]) == expected
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
    monkeypatch.setattr(chrome_json, "_HEAD_BYTES", 1)
    content = b'{"traceEvents": ' + SHORT[:END] + b"}"
    for block_bytes in range(1, len(content)):
        text = TraceText(stream_of(content, chunk_bytes), block_bytes)
        event_id = 0
        for block in text.blocks():
            assert block.first_event_id == event_id
            event_id += block.event_count
        assert event_id == 3
        assert (text.rejected, text.repaired, text.truncation) == ([], [], None)


def test_the_bounds_are_those_of_the_thorough_way() -> None:
    for name in ("MAX_TIME_US", "MIN_TIME_US", "MAX_DUR_US"):
        assert getattr(parser, name) == getattr(normalize, name)


@pytest.mark.parametrize("text", ["[]", [], None, 5])
def test_other_arguments_are_an_error(text: object) -> None:
    with pytest.raises(TypeError):
        parser.parse_events(text, 0)
    with pytest.raises((TypeError, OverflowError)):
        parser.parse_events(b"[]", 1 << 64)
    with pytest.raises(TypeError):
        parser.parse_events(b"[]")


# -- streams -----------------------------------------------------------------------------------
