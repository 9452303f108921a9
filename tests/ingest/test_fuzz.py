"""Random damage: nothing crashes, and no undamaged event is lost.

A trace is a list of event texts between brackets. If the damage is inside one event, the reader
must return exactly all others, in order. If it spans events, the reader must return every undamaged
event. The only exception: damaged text may include adjacent events if it opens a bracket that they
or the end of the file close, according to Python's json.
"""

import gzip
import json
import random
from pathlib import Path
from typing import NamedTuple

import pytest
from formats_by_hand import ODD_EVENTS as EVENTS

HEAD, TAIL = b'{"schemaVersion": 1, "traceEvents": [\n', b'\n], "traceName": "t.json"}'


class Text(NamedTuple):
    """A trace before the damage: its text, and where each event begins and ends."""

    data: bytes
    spans: list[tuple[int, int]]


def joined(events, separator):
    data, spans = bytearray(HEAD), []
    for event in events:
        if spans:
            data += separator
        spans.append((len(data), len(data) + len(event.encode())))
        data += event.encode()
    return Text(bytes(data + TAIL), spans)


def sample():
    """Return some events of the bundled trace as Kineto wrote them."""
    path = Path(__file__).resolve().parents[2] / "tests/traces/cpu_llama_lora/rank0.json.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    at = text.index('"traceEvents": [') + 16
    events = []
    while len(events) < 150:
        at = text.index("{", at)
        _, end = json.JSONDecoder().raw_decode(text, at)
        events.append(text[at:end])
        at = end
    return joined(events[::3], b",\n  ")


TEXTS = {
    "lines": joined([json.dumps(e, ensure_ascii=False) for e in EVENTS * 2], b",\n"),
    "one line": joined([json.dumps(event) for event in EVENTS * 2], b","),
    "indented": joined([json.dumps(event, indent=2) for event in EVENTS * 2], b",\n"),
    "kineto": sample(),
}
JUNK = rb"""" \ { } [ ] , : NaN "} {" }] }} ], },{ "ph": ,{"ph":"X" }]} [[[[ "x":[{ /*""".split()
JUNK += [b"\n", b"\0", b"\xff", b" ", b"\xc3", b"\xe2\x82"]


def mutated(chance, text):
    """Replace a part of a text; return it and the replaced range."""
    start = chance.randrange(len(text))
    end = min(start + chance.choice([0, 1, 4, 60]), len(text))
    source = chance.randrange(len(text))
    flipped = bytes([text[start] ^ 1 << chance.randrange(8)])
    new = chance.choice([b"", chance.choice(JUNK), text[source : source + end - start], flipped])
    return text[:start] + new + text[end:], start, end


def object_end(data, at):
    """Return the end of the JSON object that begins at an offset, by another reader."""
    try:
        value, end = json.JSONDecoder().raw_decode(data[at:].decode("latin-1"))
    except (ValueError, RecursionError):
        return None
    return at + end if isinstance(value, dict) else None


def rows_of(found):
    assert [row["event_id"] for row in found.rows] == sorted(row["event_id"] for row in found.rows)
    return [{name: row[name] for name in row if name != "event_id"} for row in found.rows]


def expect_kept(split, text, new, kept, touched):
    """Check that events are read in order, by number and new offset, unless swallowed."""
    swallowed = [(at, end) for at in touched if (end := object_end(new, at)) is not None]
    whole = rows_of(split(text.data))
    wanted = [
        whole[number]
        for number, start in kept.items()
        if not any(at < start < until for at, until in swallowed)
    ]
    for block_bytes in (1 << 20, 700):
        found = split(new, block_bytes=block_bytes)
        rows = iter(rows_of(found))
        assert all(row in rows for row in wanted), (new, found.rejected)
        assert all(0 <= offset <= len(new) for offset, _ in found.rejected)


SEEDS = 50


@pytest.mark.parametrize("layout", TEXTS)
def test_damage_inside_events(split, layout):
    text = TEXTS[layout]
    for seed in range(SEEDS):
        chance = random.Random(seed)
        victim = chance.randrange(len(text.spans))
        start, end = text.spans[victim]
        inner = text.data[start + 1 : end - 1]  # The braces stay: they separate events.
        for _ in range(chance.choice([1, 1, 2, 3])):
            inner = mutated(chance, inner)[0] or b" "
        new = text.data[: start + 1] + inner + text.data[end - 1 :]
        moved = len(new) - len(text.data)
        kept = {n: at if n < victim else at + moved for n, (at, _) in enumerate(text.spans)}
        del kept[victim]
        expect_kept(split, text, new, kept, [start])


@pytest.mark.parametrize("layout", ["lines", "one line", "kineto"])
def test_damage_anywhere(split, layout):
    text = TEXTS[layout]
    first, last = text.spans[0][0], text.spans[-1][1]
    for seed in range(SEEDS):
        middle, start, end = mutated(random.Random(seed), text.data[first:last])
        new = text.data[:first] + middle + text.data[last:]
        start, end, moved = start + first, end + first, len(new) - len(text.data)
        # An event is untouched if the damage spares its text and the comma on either side.
        kept = {n: a for n, (a, b) in enumerate(text.spans) if b + 5 <= start}
        kept |= {n: a + moved for n, (a, _) in enumerate(text.spans) if a - 5 >= end}
        touched = [a for a, b in text.spans if a <= end and b + 5 > start]
        touched += range(max(0, start - 5), start + 6)
        expect_kept(split, text, new, kept, touched)
