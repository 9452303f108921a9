"""The parser of events: which columns each member fills, and that no boundary loses an event."""

import re

import pytest

from tracekit import native
from tracekit.ingest.event_collector import EventCollector
from tracekit.ingest.formats import chrome_trace

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
        ('"name":["a"]', {"name": '["a"]'}),
        ('"name":null,"cat":null,"pid":null', {}),
        ('"\\u006eame":"a"', {"name": "a"}),
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
        (
            '"args":{"correlation":9223372036854775807,"External id":-1,"Stream":5}',
            {"correlation": 2**63 - 1, "external_id": -1}
            | {"args": '{"correlation":9223372036854775807,"External id":-1,"Stream":5}'},
        ),
        *(
            (f'"args":{args}', {"args": args})
            for args in (
                '{"correlation":9223372036854775808,"External id":18446744073709551615}',
                '{"correlation":"x","stream":[1],"External id":{}}',
                '{"correlation":null,"stream":""}',
                *("[1]", '"text"', "5"),
            )
        ),
        ('"args":null', {}),
    ],
)
def test_members_of_an_event(split, members, columns):
    found = split(f"[{{{X}{members and ','}{members}}}]".encode())
    assert found.rows == [{**READ_X, "name": "", **columns}]
    assert (found.rejected, found.repaired) == ([], [])


@pytest.mark.parametrize(
    ("event", "view"),
    [
        ('{"ph":"s","ts":1,"id":7}', "flow"),
        ('{"ph":"t","ts":1,"id":"0x7"}', "flow"),
        ('{"ph":"s","ts":1,"id":"a7"}', "flow"),
        ('{"ph":"f","ts":1,"bp":"e"}', "flow"),
        ('{"ph":"i","ts":1,"s":"g"}', "instant"),
        ('{"ph":"i","ts":1,"name":"[memory]"}', "memory"),
        ('{"ph":"i","ts":1,"name":"[memory\\u005d"}', "memory"),
        ('{"ph":"C","ts":1}', "counter"),
        ('{"ph":"M"}', "metadata"),
        ('{"ph":"B","ts":1}', "event"),
        ('{"ph":"B","ts":1,"dur":1}', "event"),
        ('{"ph":"b","ts":1,"id":"0x7"}', "event"),
        ('{"ph":"E","ts":1}', "span_end"),
        ('{"ph":"e","ts":1,"id":7}', "span_end"),
        *((text, None) for text in ('{"ph":"i"}', '{"ph":"X","ts":1}', '{"ph":"S","ts":1}')),
        *((text, None) for text in ('{"ph":5,"ts":1}', '{"ts":1}', "{}")),
        *((f'{{"ph":"{phase}","ts":1}}', None) for phase in ("P", "O", "N", "D", "", "x", "XX")),
    ],
)
def test_views_by_phase(split, event, view):
    found = split(f"[{event}]".encode())
    assert [row["view_name"] for row in found.rows] == ([view] if view else [])
    assert len(found.rejected) == (view is None and event != "{}")


SHORT = (
    '[{"ph":"X","ts":1.5,"dur":2,"name":"é\\n","args":{"a":[1,{"b":-2.5e3}],"c":null}} ,\n'
    '  {"ph":"M","pid":"text","cname":true},{ "ph" : "i" , "ts" : "3" , "id" : 12 }\n ]'
).encode()


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000])
def test_no_event_is_lost_between_two_blocks(split, monkeypatch, chunk_bytes):
    """Try every position at which the text that is available may end."""
    monkeypatch.setattr(chrome_trace, "_HEAD_BYTES", 1)
    content = b'{"traceEvents": ' + SHORT + b"}"
    rows = split(content).rows
    assert [row["view_name"] for row in rows] == ["event", "metadata", "instant"]
    for block_bytes in range(1, len(content)):
        found = split(content, block_bytes, chunk_bytes)
        assert found.rows == rows
        assert (found.rejected, found.repaired, found.text.truncation) == ([], [], None)


USUAL = (
    '{"ph": "X", "cat": "kernel", "name": "k%d", "pid": 0, "tid": 7, "ts": %d.5, "dur": 2, '
    '"args": {"External id": %d, "stream": 7, "x": [1.50, {"y": "\\u00e9\\/"}]}}'
)
# Replacement for a part of a usual event, and a resulting column with its value.
ODD = {
    "args that are not an object": ('"args": {', '"args": [1], "other": {', ("args", "[1]")),
    "a member twice": ('"pid": 0', '"pid": 0, "pid": 1', ("pid", 1)),
    "an escaped key": ('"name"', r'"n\u0061me"', ("name", "k40")),
    "an exponent": ('"dur": 2', '"dur": 2e0', ("dur_ns", 2000)),
    "half a nanosecond": ('"dur": 2', '"dur": 2.0005', ("dur_ns", 2000)),
    "a negative duration": ('"dur": 2', '"dur": -2', None),
    "an unknown phase": ('"ph": "X"', '"ph": "q"', None),
    "a time that is not a number": ('"ts": ', '"ts": "soon", "was": ', None),
    "a number beyond 64 bits": ('"stream": 7', '"stream": 1' + "0" * 30, ("stream", None)),
    "an argument twice": ('"stream": 7', '"stream": 7, "stream": 8', ("stream", 8)),
}


@pytest.mark.parametrize("case", ODD)
def test_one_odd_event_among_usual_ones(split, case):
    """It is read separately; order, counts, and numbers of other events are unchanged."""
    usual, odd, value = ODD[case]
    texts = [USUAL % (number, number, number) for number in range(60)]
    texts[40] = texts[40].replace(usual, odd, 1)
    found = split(("[" + ",\n".join(texts) + "]").encode())
    ids = [number for number in range(60) if value is not None or number != 40]
    assert [row["event_id"] for row in found.rows] == ids
    assert len(found.rejected) == 60 - len(ids)
    if value is not None:
        assert found.rows[40].get(value[0]) == value[1]


def test_nearly_all_events_of_real_traces_are_usual(split_file, sample_trace, monkeypatch):
    """Odd events are read by Python, which is slow."""
    odd = []
    read_event = EventCollector.read_event

    def note(self, text, offset, event_id):
        odd.append(event_id)
        return read_event(self, text, offset, event_id)

    monkeypatch.setattr(EventCollector, "read_event", note)
    assert len(odd) <= 0.01 * len(split_file(sample_trace).rows)


@pytest.mark.parametrize("shift", [0, 42])
def test_both_instruction_sets_read_the_same(split, shift):
    """Odd characters are on each side of a block of 64 bytes."""
    args = '{"a\\\\\\"b": "\\\\", "c":[1.50 ,-2e3,{ }, "é\\u0007"] , "stream" : 7}'
    events = f'[{" " * shift}{{{X}, "name":"n\\\\\\\\", "args": {args}}}\n,\t'
    whole = events + events[1:] * 150 + f"{{{X}}}]"
    odd = ('"', "\\", '\\"', "\x0c", "\x1a", "é", "{", "]", ":", ",", "7", "x", " ", "\n")
    texts = [whole, *(events[:at] + one + events[at:] for at in range(0, 90, 4) for one in odd)]
    try:
        for text in texts:
            found = []
            for way in ("plain", "avx2"):
                native.use_instructions(way)
                one = split(text.encode())
                found.append((one.rows, one.rejected, one.repaired, one.text.truncation))
            assert found[0] == found[1]
    finally:
        assert native.use_instructions("avx2") or native.use_instructions("plain")
    assert len(split(whole.encode()).rows) == 152
    assert len(re.findall('"ph"', whole)) == 152
