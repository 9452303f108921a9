"""Damaged files: every readable event is read, and every other one is reported with its offset."""

import json

import pytest

import tracekit
from tracekit.ingest.faults import MAX_FAULTS


def event(name, **more):
    shown = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    return json.dumps({**shown, "args": {"stream": 7, "Input Dims": [[2], []]}, **more})


FIRST, LAST = event("first"), event("last")


def around(middle, separator=",\n  "):
    """Return a trace of three events with the given one in the middle."""
    return f'{{"traceEvents": [{FIRST}{separator}{middle}{separator}{LAST}], "x": 1}}'.encode()


AT = len('{"traceEvents": [') + len(FIRST) + len(",\n  ")
"""Offset of the middle event."""

HEAD = '{"ph": "X", "ts": 1, "dur": 2, "name": '
QUOTE, CONTROL, NUMBER = "unescaped quote", "control character", "NaN or Infinity"
BACKSLASH = "unescaped backslash"

# Text after HEAD, the repaired name, and the repair.
REPAIRED = {
    "unescaped quotes": ('"say "hi" now"}', 'say "hi" now', QUOTE),
    "quotes at the end": ('"f<"a">"}', 'f<"a">', QUOTE),
    "control character": ('"a\x01b"}', "a\x01b", CONTROL),
    "NUL": ('"a\0b"}', "a\0b", CONTROL),
    "raw newline": ('"a\nb"}', "a\nb", CONTROL),
    "raw CRLF": ('"a\r\nb"}', "a\r\nb", CONTROL),
    "raw tab": ('"a\tb"}', "a\tb", CONTROL),
    "NaN": ('"a", "args": {"x": NaN, "y": [nan, -nan(ind)]}}', "a", NUMBER),
    "Infinity": ('"a", "args": {"x": -Infinity, "y": inf}}', "a", NUMBER),
    "backslash": ('"C:\\Users\\me"}', "C:\\Users\\me", BACKSLASH),
    "backslash like an escape": ('"C:\\Users\\new\\x"}', "C:\\Users\\new\\x", BACKSLASH),
    "lone surrogate": ('"a\\ud800b"}', "a\ufffdb", "lone surrogate"),
    "short escape": ('"a\\u12"}', "a\\u12", BACKSLASH),
    "trailing comma": ('"a",}', "a", "trailing comma"),
    "trailing comma inside": ('"a", "args": {"x": [1, 2, ], }}', "a", "trailing comma"),
    "bare words": ('"a", "args": {"x": ncclFloat32, "z": 0x4142e90}}', "a", "word without quotes"),
    "several": ('"say "hi"\x02", "args": {"x": NaN}}', 'say "hi"\x02', (QUOTE, CONTROL, NUMBER)),
    "duplicate keys": ('"a", "name": "b"}', "b", "duplicate key"),
}
INVALID_UTF8 = {
    "Latin-1": (b"caf\xe9", "caf\ufffd"),
    "cut multi-byte character": (b"\xe2\x82", "\ufffd\ufffd"),
    "overlong": (b"\xc0\xaf", "\ufffd\ufffd"),
    "a surrogate as UTF-8": (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    "binary": (b"\x80\xff\xfe", "\ufffd\ufffd\ufffd"),
}
# Text of an event, offsets of its rejected pieces, their event_id, and a word of the reason.
REJECTED = {
    "a number": ("5", [0], None, "object"),
    "a text": ('"ph"', [0], None, "object"),
    "an array": ('[{"ph": "X"}]', [0], None, "object"),
    "null": ("null", [0], None, "object"),
    "several": ("1, true, [2]", [0, 3, 9], None, "object"),
    "no phase": (event("a").replace('"ph": "X", ', ""), [0], 1, "ph"),
    "no ts": (event("a").replace('"ts": 1, ', ""), [0], 1, "ts"),
    "no dur": (event("a").replace('"dur": 2, ', ""), [0], 1, "dur"),
    "negative dur": (event("a", dur=-1), [0], 1, "dur"),
    "huge ts": (event("a", ts=10**40), [0], 1, "range"),
    "comma missing inside": ('{"ph": "X" "ts": 1, "dur": 2}', [0], None, "(byte 11)"),
    "colon missing": ('{"ph" "X", "ts": 1, "dur": 2}', [0], None, "(byte 6)"),
    "bare words": ('{"ph": X Y, "ts": 1}', [0], None, "(byte 7)"),
    "single quotes": ("{'ph': 'X', 'ts': 1, 'dur': 2}", [0], None, "(byte 1)"),
    "quote before a colon": (HEAD + '"a": "b"c"}', [0], None, "JSON"),
    "no closing brace": ('{"ph": "X", "ts": 1, "dur": 2', [0], None, "cut off"),
    "cut off in a string": ('{"ph": "X", "name": "void k<', [0], None, "cut off"),
    "cut off in args": ('{"ph": "X", "args": {"x": [1, 2', [0], None, "cut off"),
    "junk": ("oops", [0], None, "JSON"),
    "brackets nested too deeply": (
        HEAD + '"a", "args": {"x": ' + "[" * 100_000 + "]" * 100_000 + "}}", [0], None, "deep"
    ),
    "brackets never closed": (
        HEAD + '"a", "args": {"x": ' + "[" * 100_000 + "}}", [0], None, "deep"
    ),
    "objects nested too deeply": (
        HEAD + '"a", "args": ' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "}", [0], None, "deep"
    ),
}  # fmt: skip
_DEEP = [case for case, (text, *_) in REJECTED.items() if len(text) > 10_000]

# Damage between events: the file, the names that are read, and the offsets of rejected pieces.
BETWEEN = {
    "comma missing": (f"[{FIRST}{LAST}\n{FIRST}]", "first last first", []),
    "commas doubled": (f"[,{FIRST},,{LAST},]", "first last", []),
    "empty objects": (f"[{{}},{FIRST},{{ }},{LAST},{{}}]", "first last", []),
    "stray brace": (f"[{FIRST}}},{LAST}]", "first last", [len(FIRST) + 1]),
    "stray bracket": (f"[{FIRST}],{LAST},{FIRST}]", "first last first", [len(FIRST) + 1]),
    "trace closed too early": (
        f'{{"traceEvents":[{FIRST}]}},\n{LAST},{FIRST}]}}', "first last first", [len(FIRST) + 16]
    ),
    "metadata after a stray bracket": (
        f'{{"traceEvents":[{FIRST}],"x":1}},{LAST},{FIRST}],"y":2}}',
        "first last first", [len(FIRST) + 16],
    ),
    "a damaged event, then none": (
        f'[{FIRST}, {HEAD}"a"b"}}, 5, {{"p', 'first a"b', [len(FIRST) + len(HEAD) + 11]
    ),
    "words before an event": (
        f"[{FIRST}, oops, {LAST}, oh {FIRST}]",
        "first last first", [len(FIRST) + 3, len(FIRST) + len(LAST) + 11],
    ),
    "garbage at the end": (
        f'{{"traceEvents":[{FIRST},{LAST}]}} garbage \n',
        "first last", [len(FIRST) + len(LAST) + 20],
    ),
    "garbage after a bare array": (
        f"[{FIRST},{LAST}]\n\n}}}}\n", "first last", [len(FIRST) + len(LAST) + 5]
    ),
    "invalid metadata at the end": (
        f'{{"traceEvents":[{FIRST},{LAST}], "x": , "y": 2}}',
        "first last", [len(FIRST) + len(LAST) + 18],
    ),
    "invalid metadata in front": (
        f'{{"x": , "traceEvents":[{FIRST},{LAST}]}}', "first last", [0]
    ),
    "two traces in one file": (
        f'{{"traceEvents":[{FIRST}]}}\n{{"traceEvents":[{LAST}]}}',
        "first last", [len(FIRST) + 19],
    ),
}  # fmt: skip

_DEVICES = '"deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}]'
_LOG = '"INFO": ["step: 1", "device = 0 cudaEvent "event_id": 64, "stream": 7"]'
_EVENTS = f'"with_stack": 1, "traceEvents":[{FIRST},{LAST}]'
_BASE = '"baseTimeNanoseconds": 5'

DAMAGED_METADATA = {
    "after the events": f'{{{_DEVICES}, {_EVENTS}, {_LOG}, "W": ["one\ntwo"], {_BASE}}}',
    "before the events": f"{{{_LOG}, {_EVENTS}, {_DEVICES}, {_BASE}}}",
    "among the members in front": f"{{{_DEVICES},\n{_LOG},\n{_EVENTS}, {_BASE}}}",
}


@pytest.mark.parametrize("case", DAMAGED_METADATA)
def test_a_damaged_member_affects_no_other_member(load, case):
    loaded = load(DAMAGED_METADATA[case])
    assert loaded.names == ["first", "last"]
    assert loaded.sql("SELECT name, sm_count FROM device") == [("NVIDIA H100", 132)]
    assert loaded.sql("SELECT with_stack, base_time_ns FROM trace") == [(True, 5)]
    assert [event_id for _, event_id, _ in loaded.rejected] == [None]


@pytest.mark.parametrize("case", REPAIRED)
def test_damaged_events_are_repaired(load, case):
    text, name, reasons = REPAIRED[case]
    loaded = load(around(HEAD + text))
    assert loaded.names == ["first", name, "last"]
    reason = reasons if isinstance(reasons, str) else ", ".join(reasons)
    assert loaded.repaired == [(AT, 1, reason)]
    assert loaded.rejected == []
    counts = "SELECT repaired_count, rejected_count, is_truncated FROM trace"
    assert loaded.sql(counts) == [(1, 0, False)]


@pytest.mark.parametrize("case", INVALID_UTF8)
def test_invalid_utf8_is_replaced(load, case):
    damaged, name = INVALID_UTF8[case]
    loaded = load(around(event("HERE")).replace(b"HERE", damaged))
    assert loaded.names == ["first", name, "last"]
    assert loaded.repaired == [(AT, 1, "invalid UTF-8")]
    assert loaded.rejected == []


def test_invalid_utf8_in_metadata(load):
    loaded = load(b'{"host_name": "caf\xe9", "traceEvents": [' + FIRST.encode() + b"]}")
    assert loaded.names == ["first"]
    assert loaded.sql("SELECT host_name, rejected_count FROM trace") == [("caf\ufffd", 0)]


@pytest.mark.parametrize("case", REJECTED)
def test_unreadable_events_are_rejected(load, case):
    text, offsets, event_id, word = REJECTED[case]
    for separator in (",\n  ",) if case in _DEEP else (",\n  ", ",", "\r\n  ,"):
        loaded = load(around(text, separator))
        at = AT - len(",\n  ") + len(separator)
        assert loaded.names == ["first", "last"]
        assert [row[:2] for row in loaded.rejected] == [(at + o, event_id) for o in offsets]
        assert all(word in reason for *_, reason in loaded.rejected)
        assert loaded.repaired == []
        counts = "SELECT event_count, rejected_count, is_truncated FROM trace"
        assert loaded.sql(counts) == [(2, len(offsets), False)]
        ((shown,), *_) = loaded.sql("SELECT text FROM rejected ORDER BY byte_offset")
        assert text.startswith(shown)


@pytest.mark.parametrize("case", BETWEEN)
def test_damage_between_events(load, case):
    text, names, offsets = BETWEEN[case]
    loaded = load(text)
    assert loaded.names == names.split()
    assert [row[:2] for row in loaded.rejected] == [(offset, None) for offset in offsets]
    assert len(loaded.repaired) == names.count('"')


@pytest.mark.parametrize("block_bytes", [1, 50, 200, 1000])
def test_block_boundaries_change_nothing(split, block_bytes):
    texts = [around(HEAD + text) for text, *_ in REPAIRED.values()]
    texts += [around(text) for case, (text, *_) in REJECTED.items() if case not in _DEEP]
    texts += [text.encode() for text, *_ in BETWEEN.values()]
    for text in texts:
        whole = split(text)
        small = split(text, block_bytes=block_bytes, chunk_bytes=max(1, block_bytes // 2))
        assert small.rows == whole.rows
        assert (small.rejected, small.repaired) == (whole.rejected, whole.repaired), text
        assert small.text.truncation == whole.text.truncation


def test_damage_all_over_a_file(load):
    """Each of many damaged events in many blocks is handled by itself."""
    pieces, names, rejected, repaired = [], [], [], []
    at, event_id = 1, 0
    for number in range(3000):
        if number % 7 == 3:
            text, name = HEAD + f'"say "{number}" now"}}', f'say "{number}" now'
            repaired.append((at, event_id, QUOTE))
        elif number % 7 == 5:
            text, name = HEAD + f'"cut {number}', None
            rejected.append((at, None, "cut off"))
        else:
            text = event(name := f"good {number}")
        if name is not None:
            names.append(name)
            event_id += 1
        pieces.append(text)
        at += len(text) + 2
    loaded = load("[" + ",\n".join(pieces) + "]", block_bytes=50_000)
    assert loaded.names == names
    assert loaded.rejected == rejected
    assert loaded.repaired == repaired


def test_duplicate_keys_keep_exact_times(load):
    loaded = load(
        '[{"ph":"X","name":"k","ts":1,"ts":1694128201545123.456,"dur":5,"dur":1.001},'
        + event("good", ts=1694128201545123)
        + "]"
    )
    assert loaded.sql("SELECT ts_ns, dur_ns FROM event") == [
        (1694128201545123456, 1001),
        (1694128201545123000, 2000),
    ]


def test_the_text_of_a_rejected_piece_is_bounded(load):
    loaded = load(around(HEAD + '"' + "x" * 100_000))
    assert loaded.sql("SELECT length(text) FROM rejected") == [(2048,)]


def test_a_long_damaged_event_is_skipped(load):
    for size in (200_000, 600_000):
        for text in (HEAD + '"' + "x" * size, HEAD + '"a", "x" 5 "' + "y, {" * (size // 4) + '"}'):
            assert load(around(text), block_bytes=100_000).names == ["first", "last"]


def test_a_long_valid_event_is_loaded(load):
    long = event("x" * 500_000)
    loaded = load(around(long), block_bytes=10_000)
    assert [len(name) for name in loaded.names] == [5, 500_000, 4]
    # A damaged event makes the reader read the adjacent events separately.
    loaded = load(f"[{long},{HEAD}" + f'"cut ,{long},{LAST}]', block_bytes=10_000)
    assert [len(name) for name in loaded.names] == [500_000, 500_000, 4]


def test_all_faults_are_counted_and_the_first_are_stored(tmp_path):
    count = MAX_FAULTS + 5
    path = tmp_path / "rank0.json"
    path.write_text("[" + ",".join([FIRST, *['{"ph":"X","name":"a","dur":2}'] * count]) + "]")
    with tracekit.open(path, cache=False) as trace:
        assert trace.sql("SELECT event_count, rejected_count FROM trace").rows == [(1, count)]
        kept = "SELECT count(*), min(event_id), max(event_id) FROM rejected"
        assert trace.sql(kept).rows == [(MAX_FAULTS, 1, MAX_FAULTS)]
        health = {row["metric"]: row["value"] for row in trace.health().to_dicts()}
    assert health["rejected"] == count
