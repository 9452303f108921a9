"""Broken files: every readable event is kept, every other one named with offset and reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest


def event(name: str, **more: Any) -> str:
    shown = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    return json.dumps({**shown, "args": {"stream": 7, "Input Dims": [[2], []]}, **more})


FIRST, LAST = event("first"), event("last")


def around(middle: str, separator: str = ",\n  ") -> bytes:
    """A trace of three events, the one in the middle as given."""
    return f'{{"traceEvents": [{FIRST}{separator}{middle}{separator}{LAST}], "x": 1}}'.encode()


AT = len('{"traceEvents": [') + len(FIRST) + len(",\n  ")
"""Where the middle event begins."""

HEAD = '{"ph": "X", "ts": 1, "dur": 2, "name": '

# The text of an event, what its name becomes, and what is said about it.
REPAIRED = {
    "unescaped quotes": (HEAD + '"say "hi" now"}', 'say "hi" now', "unescaped quote"),
    "quotes at the end": (HEAD + '"f<"a">"}', 'f<"a">', "unescaped quote"),
    "quote before a colon": (HEAD + '"a": "b"c"}', None, None),
    "control character": (HEAD + '"a\x01b"}', "a\x01b", "control character"),
    "NUL": (HEAD + '"a\0b"}', "a\0b", "control character"),
    "raw newline": (HEAD + '"a\nb"}', "a\nb", "control character"),
    "raw CRLF": (HEAD + '"a\r\nb"}', "a\r\nb", "control character"),
    "raw tab": (HEAD + '"a\tb"}', "a\tb", "control character"),
    "NaN": (HEAD + '"a", "args": {"x": NaN, "y": [nan, -nan(ind)]}}', "a", "NaN or Infinity"),
    "Infinity": (HEAD + '"a", "args": {"x": -Infinity, "y": inf}}', "a", "NaN or Infinity"),
    "backslash": (HEAD + '"C:\\Users\\me"}', "C:\\Users\\me", "unescaped backslash"),
    "backslashes that could be escapes": (
        HEAD + '"C:\\Users\\new\\table"}',
        "C:\\Users\\new\\table",
        "unescaped backslash",
    ),
    "lone surrogate": (HEAD + '"a\\ud800b"}', "a\ufffdb", "lone surrogate"),
    "short escape": (HEAD + '"a\\u12"}', "a\\u12", "unescaped backslash"),
    "trailing comma": (HEAD + '"a",}', "a", "trailing comma"),
    "trailing comma inside": (HEAD + '"a", "args": {"x": [1, 2, ], }}', "a", "trailing comma"),
    "words without quotes": (
        HEAD + '"a", "args": {"x": ncclFloat32, "y": true, "z": 0x4142e90}}',
        "a",
        "word without quotes",
    ),
    "two things": (
        HEAD + '"say "hi"\x02", "args": {"x": NaN}}',
        'say "hi"\x02',
        "unescaped quote, control character, NaN or Infinity",
    ),
    "duplicate keys": (HEAD + '"a", "name": "b"}', "b", "duplicate key"),
}
INVALID_UTF8 = {
    "Latin-1": (b"caf\xe9", "caf\ufffd"),
    "cut multi-byte character": (b"\xe2\x82", "\ufffd\ufffd"),
    "overlong": (b"\xc0\xaf", "\ufffd\ufffd"),
    "a surrogate as UTF-8": (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    "binary": (b"\x80\xff\xfe", "\ufffd\ufffd\ufffd"),
}
# The text of an event, and for each piece of it that is rejected: offset in it, event_id, reason.
REJECTED: dict[str, tuple[str, list[tuple[int, int | None, str]]]] = {
    "a number": ("5", [(0, None, "an event that is no object")]),
    "a text": ('"ph"', [(0, None, "an event that is no object")]),
    "an array": ('[{"ph": "X"}]', [(0, None, "an event that is no object")]),
    "null": ("null", [(0, None, "an event that is no object")]),
    "several": (
        "1, true, [2]",
        [(at, None, "an event that is no object") for at in (0, 3, 9)],
    ),
    "no phase": (event("a").replace('"ph": "X", ', ""), [(0, 1, "no phase (ph)")]),
    "no ts": (event("a").replace('"ts": 1, ', ""), [(0, 1, "no ts")]),
    "no dur": (event("a").replace('"dur": 2, ', ""), [(0, 1, "no dur")]),
    "ts no number": (event("a", ts="soon"), [(0, 1, "ts is no number")]),
    "dur no number": (event("a", dur=[1]), [(0, 1, "dur is no number")]),
    "negative dur": (event("a", dur=-1), [(0, 1, "negative dur")]),
    "huge ts": (event("a", ts=10**40), [(0, 1, "ts is out of range")]),
    "huge dur": (event("a", dur=10**40), [(0, 1, "dur is out of range")]),
    "comma missing inside": (
        '{"ph": "X" "ts": 1, "dur": 2}',
        [(0, None, "malformed JSON: expected ',' or '}' (byte 11)")],
    ),
    "colon missing": (
        '{"ph" "X", "ts": 1, "dur": 2}',
        [(0, None, "malformed JSON: expected ':' (byte 6)")],
    ),
    "bare words": (
        '{"ph": X Y, "ts": 1}',
        [(0, None, "malformed JSON: invalid character (byte 7)")],
    ),
    "single quotes": (
        "{'ph': 'X', 'ts': 1, 'dur': 2}",
        [(0, None, "malformed JSON: object keys must be strings (byte 1)")],
    ),
    "no closing brace": ('{"ph": "X", "ts": 1, "dur": 2', [(0, None, "cut off")]),
    "cut off in a string": ('{"ph": "X", "name": "void k<', [(0, None, "cut off")]),
    "cut off in args": ('{"ph": "X", "args": {"x": [1, 2', [(0, None, "cut off")]),
    "junk": ("oops", [(0, None, "malformed JSON: invalid character (byte 0)")]),
    "brackets nested too deeply": (
        HEAD + '"a", "args": {"x": ' + "[" * 100_000 + "]" * 100_000 + "}}",
        [(0, None, "nested too deeply")],
    ),
    "brackets never closed": (
        HEAD + '"a", "args": {"x": ' + "[" * 100_000 + "}}",
        [(0, None, "nested too deeply")],
    ),
    "objects nested too deeply": (
        HEAD + '"a", "args": ' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "}",
        [(0, None, "nested too deeply")],
    ),
}
# Damage between events: the whole file, the names read, and what is said.
BETWEEN: dict[str, tuple[str, list[str], list[tuple[int, int | None, str]]]] = {
    "comma missing": (f"[{FIRST}{LAST}\n{FIRST}]", ["first", "last", "first"], []),
    "commas doubled": (f"[,{FIRST},,{LAST},]", ["first", "last"], []),
    "empty objects": (f"[{{}},{FIRST},{{ }},{LAST},{{}}]", ["first", "last"], []),
    "stray brace": (
        f"[{FIRST}}},{LAST}]",
        ["first", "last"],
        [(len(FIRST) + 1, None, "malformed JSON: invalid character (byte 0)")],
    ),
    "stray bracket": (
        f"[{FIRST}],{LAST},{FIRST}]",
        ["first", "last", "first"],
        [(len(FIRST) + 1, None, "stray closing bracket")],
    ),
    "trace closed too early": (
        f'{{"traceEvents":[{FIRST}]}},\n{LAST},{FIRST}]}}',
        ["first", "last", "first"],
        [(len(FIRST) + 16, None, "stray closing bracket")],
    ),
    "a member of the event behind a stray bracket": (
        f'{{"traceEvents":[{FIRST}],"x":1}},{LAST},{FIRST}],"y":2}}',
        ["first", "last", "first"],
        [(len(FIRST) + 16, None, "stray closing bracket")],
    ),
    "a damaged event, then none": (
        f'[{FIRST}, {HEAD}"a"b"}}, 5, {{"p',
        ["first", 'a"b'],
        [(len(FIRST) + len(HEAD) + 11, None, "an event that is no object")],
    ),
    "words before an event": (
        f"[{FIRST}, oops, {LAST}, oh {FIRST}]",
        ["first", "last", "first"],
        [
            (len(FIRST) + 3, None, "malformed JSON: invalid character (byte 0)"),
            (len(FIRST) + len(LAST) + 11, None, "malformed JSON: invalid character (byte 0)"),
        ],
    ),
    "garbage behind": (
        f'{{"traceEvents":[{FIRST},{LAST}]}} garbage \n',
        ["first", "last"],
        [(len(FIRST) + len(LAST) + 20, None, "text behind the end of the trace")],
    ),
    "garbage behind a bare array": (
        f"[{FIRST},{LAST}]\n\n}}}}\n",
        ["first", "last"],
        [(len(FIRST) + len(LAST) + 5, None, "text behind the end of the trace")],
    ),
    "metadata behind that is no JSON": (
        f'{{"traceEvents":[{FIRST},{LAST}], "x": , "y": 2}}',
        ["first", "last"],
        [(len(FIRST) + len(LAST) + 18, None, "the metadata around the events is not valid JSON")],
    ),
    "metadata in front that is no JSON": (
        f'{{"x": , "traceEvents":[{FIRST},{LAST}]}}',
        ["first", "last"],
        [(0, None, "the metadata around the events is not valid JSON")],
    ),
    "two traces in one file": (
        f'{{"traceEvents":[{FIRST}]}}\n{{"traceEvents":[{LAST}]}}',
        ["first", "last"],
        [(len(FIRST) + 19, None, "text behind the end of the trace")],
    ),
}


_DEVICES = '"deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}]'
_LOG = '"INFO": ["step: 1", "device = 0 cudaEvent "event_id": 64, "stream": 7"]'

DAMAGED_OUTSIDE = {
    "a log behind the events": (
        f'{{{_DEVICES}, "with_stack": 1, "traceEvents":[{FIRST},{LAST}], {_LOG}, '
        '"WARNING": ["one\ntwo"], "baseTimeNanoseconds": 5}'
    ),
    "a log in front of the events": (
        f'{{{_LOG}, "traceEvents":[{FIRST},{LAST}], {_DEVICES}, "with_stack": 1, '
        '"baseTimeNanoseconds": 5}'
    ),
    "a log among the members in front": (
        f'{{{_DEVICES},\n{_LOG},\n"with_stack": 1, "traceEvents":[{FIRST},{LAST}], '
        '"baseTimeNanoseconds": 5}'
    ),
}


@pytest.mark.parametrize("case", DAMAGED_OUTSIDE)
def test_damage_of_one_member_costs_no_other(load: Callable[..., Any], case: str) -> None:
    loaded = load(DAMAGED_OUTSIDE[case])
    assert loaded.names == ["first", "last"]
    assert loaded.sql("SELECT name, sm_count FROM device") == [("NVIDIA H100", 132)]
    assert loaded.sql("SELECT with_stack, base_time_ns FROM trace") == [(True, 5)]
    (reason,) = [reason for *_, reason in loaded.rejected]
    assert reason == "the metadata around the events is not valid JSON"


@pytest.mark.parametrize("case", REPAIRED)
def test_what_can_be_mended_is_mended(load: Callable[..., Any], case: str) -> None:
    text, name, reason = REPAIRED[case]
    loaded = load(around(text))
    if name is None:
        assert loaded.names == ["first", "last"]
        assert [(at, event_id) for at, event_id, _ in loaded.rejected] == [(AT, None)]
        return
    assert loaded.names == ["first", name, "last"]
    assert loaded.repaired == [(AT, 1, reason)]
    assert loaded.rejected == []
    assert loaded.sql("SELECT repaired_count, rejected_count, is_truncated FROM trace") == [
        (1, 0, False)
    ]


@pytest.mark.parametrize("case", INVALID_UTF8)
def test_invalid_utf8_is_replaced(load: Callable[..., Any], case: str) -> None:
    damaged, name = INVALID_UTF8[case]
    loaded = load(around(event("HERE")).replace(b"HERE", damaged))
    assert loaded.names == ["first", name, "last"]
    assert loaded.repaired == [(AT, 1, "invalid UTF-8")]
    assert loaded.rejected == []


def test_invalid_utf8_in_metadata(load: Callable[..., Any]) -> None:
    loaded = load(b'{"host_name": "caf\xe9", "traceEvents": [' + FIRST.encode() + b"]}")
    assert loaded.names == ["first"]
    assert loaded.sql("SELECT host_name, rejected_count FROM trace") == [("caf\ufffd", 0)]


@pytest.mark.parametrize("case", REJECTED)
@pytest.mark.parametrize("separator", [",\n  ", ",", "\r\n  ,"])
def test_what_cannot_be_read_is_named(load: Callable[..., Any], case: str, separator: str) -> None:
    text, rejected = REJECTED[case]
    loaded = load(around(text, separator))
    at = AT - len(",\n  ") + len(separator)
    assert loaded.names == ["first", "last"]
    assert loaded.rejected == [(at + offset, row, reason) for offset, row, reason in rejected]
    assert loaded.repaired == []
    assert loaded.sql("SELECT event_count, rejected_count, is_truncated FROM trace") == [
        (2, len(rejected), False)
    ]
    ((shown,), *_) = loaded.sql("SELECT text FROM rejected ORDER BY byte_offset")
    assert text.startswith(shown)


@pytest.mark.parametrize("case", BETWEEN)
def test_damage_between_events(load: Callable[..., Any], case: str) -> None:
    text, names, rejected = BETWEEN[case]
    loaded = load(text)
    assert loaded.names == names
    assert loaded.rejected == rejected
    assert len(loaded.repaired) == sum('"' in name for name in names)


@pytest.mark.parametrize("block_bytes", [1, 50, 200, 1000])
def test_block_seams_change_nothing(split: Callable[..., Any], block_bytes: int) -> None:
    texts = [around(text) for text, *_ in REPAIRED.values()]
    texts += [around(text) for text, _ in REJECTED.values() if len(text) < 10_000]
    texts += [text.encode() for text, *_ in BETWEEN.values()]
    for text in texts:
        whole = split(text)
        small = split(text, block_bytes=block_bytes, chunk_bytes=max(1, block_bytes // 2))
        assert small.events == whole.events
        assert (small.rejected, small.repaired) == (whole.rejected, whole.repaired), text
        assert small.text.truncation == whole.text.truncation


def test_damage_all_over_a_file(load: Callable[..., Any]) -> None:
    """Many damaged events in many blocks: each is dealt with by itself."""
    pieces, names, rejected, repaired = [], [], [], []
    at, event_id = 1, 0
    for turn in range(3000):
        kind = turn % 7
        text = (
            HEAD + f'"say "{turn}" now"}}'
            if kind == 3
            else HEAD + f'"cut {turn}'
            if kind == 5
            else event(f"good {turn}")
        )
        if kind == 3:
            repaired.append((at, event_id, "unescaped quote"))
        if kind == 5:
            rejected.append((at, None, "cut off"))
        else:
            names.append(f'say "{turn}" now' if kind == 3 else f"good {turn}")
            event_id += 1
        pieces.append(text)
        at += len(text) + 2
    loaded = load("[" + ",\n".join(pieces) + "]", block_bytes=50_000)
    assert loaded.names == names
    assert loaded.rejected == rejected
    assert loaded.repaired == repaired


def test_duplicate_keys_in_every_event(load: Callable[..., Any]) -> None:
    texts = [HEAD + f'"old", "ts": 5, "ts": {turn}, "name": "new {turn}"}}' for turn in range(2000)]
    loaded = load("[" + ",".join(texts) + "]")
    assert loaded.sql("SELECT count(*), sum(ts_ns) FROM event WHERE name LIKE 'new%'") == [
        (2000, sum(range(2000)) * 1000)
    ]
    assert loaded.sql("SELECT count(*) FROM repaired WHERE reason = 'duplicate key'") == [(2000,)]


def test_duplicate_keys_and_exact_times_agree(load: Callable[..., Any]) -> None:
    loaded = load(
        '[{"ph":"X","name":"k","ts":1,"ts":1694128201545123.456,"dur":5,"dur":1.001},'
        + event("good", ts=1694128201545123)
        + "]"
    )
    assert loaded.sql("SELECT ts_ns, dur_ns FROM event") == [
        (1694128201545123456, 1001),
        (1694128201545123000, 2000),
    ]


def test_the_text_of_a_rejected_piece_is_bounded(load: Callable[..., Any]) -> None:
    loaded = load(around(HEAD + '"' + "x" * 100_000))
    assert loaded.sql("SELECT length(text) FROM rejected") == [(2048,)]


def test_a_long_damaged_event_is_stepped_over(load: Callable[..., Any]) -> None:
    for size in (200_000, 600_000):
        for text in (HEAD + '"' + "x" * size, HEAD + '"a", "x" 5 "' + "y, {" * (size // 4) + '"}'):
            assert load(around(text), block_bytes=100_000).names == ["first", "last"]


def test_a_long_good_event_is_kept(load: Callable[..., Any]) -> None:
    long = event("x" * 500_000)
    loaded = load(around(long), block_bytes=10_000)
    assert [len(name) for name in loaded.names] == [5, 500_000, 4]
    # Also beside a damaged one, where events are read one by one.
    loaded = load(f"[{long},{HEAD}" + f'"cut ,{long},{LAST}]', block_bytes=10_000)
    assert [len(name) for name in loaded.names] == [500_000, 500_000, 4]


# -- what is no trace at all -----------------------------------------------------------------------
