"""Damage at random: nothing crashes, no event that is whole is lost, everything is accounted for.

The property. A trace is a list of event texts between brackets. Damage that stays inside of some
events leaves all others whole, and the reader must return exactly those, in order, each at its
offset. Two exceptions are legitimate, and an independent reader (Python's json, one object at a
time) tells them: the damaged text may swallow its neighbours (it opened a bracket that they and the
end of the file close: as JSON, they are inside of it), and it may hold objects that are whole (a
copy of a part of the text may be one). Damage across the borders of events must leave every event
whole that is not touched and has its separators, with the same exceptions.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracekit.errors import TraceError

HEAD, TAIL = b'{"schemaVersion": 1, "traceEvents": [\n', b'\n], "traceName": "t.json"}'
HAND_MADE = [
    {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 8, "ts": 10.25, "dur": 5}
    | {"args": {"External id": 3, "Input Dims": [[2, 3], [], [[1]]], "x": {"y": [{"z": {}}]}}},
    {"ph": "X", "cat": "kernel", "name": "void k<int, (A)3>(f*[2], {})", "ts": 1.5, "dur": 0.5},
    {"ph": "s", "id": 9, "pid": 7, "tid": 8, "ts": 11, "cat": "ac2g", "name": "ac2g"},
    {
        "name": 'quoted "kernel" \\ path',
        "ph": "X",
        "ts": 3,
        "dur": 1,
        "args": {"a": "}, {", "b": "]"},
    },
    {"ph": "X", "name": "é\u2028\U0001f600", "ts": 3, "dur": 1, "args": {"call": "f(\n\t)"}},
]
EFFORT = int(os.environ.get("TRACEKIT_FUZZ", "1"))
"""More than 1: so many times the examples, and other ones each time."""

check = settings(
    deadline=None,
    derandomize=EFFORT == 1,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Text(NamedTuple):
    """A trace as it was before the damage: its text, and where each event begins and ends."""

    data: bytes
    spans: list[tuple[int, int]]


def joined(events: list[bytes], separator: bytes) -> Text:
    data, spans = bytearray(HEAD), []
    for at, event in enumerate(events):
        if at:
            data += separator
        spans.append((len(data), len(data) + len(event)))
        data += event
    return Text(bytes(data + TAIL), spans)


def hand_made(separator: bytes, *, ascii_only: bool, indent: int | None = None) -> Text:
    texts = [
        json.dumps(event, ensure_ascii=ascii_only, indent=indent).encode()
        for event in HAND_MADE + HAND_MADE
    ]
    return joined(texts, separator)


def sample() -> Text:
    """Some hundred events of the bundled trace, as Kineto wrote them."""
    path = Path(__file__).resolve().parents[2] / "tests/traces/cpu_llama_lora/rank0.json.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    at = text.index('"traceEvents": [') + 16
    events = []
    decoder = json.JSONDecoder()
    while len(events) < 150:
        at = text.index("{", at)
        _, end = decoder.raw_decode(text, at)
        events.append(text[at:end].encode())
        at = end
    return joined(events[::3], b",\n  ")


TEXTS = [
    hand_made(b",\n", ascii_only=False),
    hand_made(b",", ascii_only=True),
    hand_made(b",\n", ascii_only=True, indent=2),
    sample(),
]
JUNK = st.one_of(
    st.binary(min_size=1, max_size=3),
    st.sampled_from(
        rb"""" \ { } [ ] , : NaN "} {" }] }} ], },{ "ph": ,{"ph":"X" }]} [[[[ "x":[{ /*""".split()
    ),
    st.sampled_from([b"\n", b"\0", b"\xff", b" "]),
)


class Damage(NamedTuple):
    """What replaces the bytes from `start` to `end`, both as a share of what may be damaged."""

    start: float
    length: int
    kind: str
    junk: bytes
    source: float


DAMAGE = st.builds(
    Damage,
    st.floats(0, 1, exclude_max=True),
    st.one_of(st.integers(0, 4), st.integers(0, 60)),
    st.sampled_from(["insert", "delete", "replace", "copy", "flip"]),
    JUNK,
    st.floats(0, 1, exclude_max=True),
)


def damaged(data: bytes, low: int, high: int, damage: Damage) -> tuple[bytes, int, int]:
    """Damage a text between two offsets; returns it, and the place in the old text."""
    start = low + int(damage.start * (high - low))
    end = min(start + damage.length, high)
    match damage.kind:
        case "insert":
            end, new = start, damage.junk
        case "delete":
            new = b""
        case "replace":
            new = damage.junk
        case "copy":
            source = low + int(damage.source * (high - low))
            new, end = data[source : min(source + damage.length, high)], start
        case _:
            end = min(start + 1, high)
            new = bytes([data[start] ^ (1 << (damage.length % 8))]) if end > start else b""
    return data[:start] + new + data[end:], start, end


def object_at(data: bytes, at: int) -> int | None:
    """Where the JSON object that begins at `at` ends, by another reader than ours."""
    try:
        value, end = json.JSONDecoder().raw_decode(data[at:].decode("latin-1"))
    except (ValueError, RecursionError):
        return None
    return at + end if isinstance(value, dict) else None


def expect_kept(found: Any, new: bytes, kept: list[tuple[int, int]], touched: list[int]) -> None:
    """Check that the events at these places in the new text came back, if nothing swallows them."""
    swallowed = [(at, end) for at in touched if (end := object_at(new, at)) is not None]
    read = dict(found.events)
    for start, end in kept:
        if any(at < start < until for at, until in swallowed):
            continue
        right = json.loads(new[start:end])
        assert read.get(start) == right, (start, new[start:end], found.rejected)


def account(found: Any, new: bytes) -> None:
    """Nothing is read twice or out of order, and what is missing from the text is named."""
    offsets = [offset for offset, _ in found.events]
    assert offsets == sorted(set(offsets))
    assert all(isinstance(event, dict) for _, event in found.events)
    assert all(0 <= offset <= len(new) for offset, _ in found.rejected)
    mended = {event_id: offset for offset, event_id, _ in found.repaired if event_id >= 0}
    for event_id, offset in mended.items():
        assert found.events[event_id][0] == offset
    decoder = json.JSONDecoder()
    for event_id, (offset, event) in enumerate(found.events):
        if event_id not in mended:
            # As it stands in the file, byte for byte.
            text = new[offset : offset + 100_000].decode("utf-8", "surrogateescape")
            assert decoder.raw_decode(text)[0] == event


BLOCKS = [1 << 20, 700]


@pytest.mark.parametrize("text", TEXTS, ids=["lines", "one line", "indented", "kineto"])
def test_damage_inside_of_events(split: Callable[..., Any], text: Text) -> None:
    @settings(check, max_examples=60 * EFFORT)
    @given(st.integers(0, len(text.spans) - 1), st.lists(DAMAGE, min_size=1, max_size=3))
    def run(victim: int, damages: list[Damage]) -> None:
        start, end = text.spans[victim]
        inner = text.data[start + 1 : end - 1]  # The braces stay: they are the separators' half.
        for damage in damages:
            inner, _, _ = damaged(inner, 0, len(inner), damage)
        new = text.data[: start + 1] + inner + text.data[end - 1 :]
        moved = len(new) - len(text.data)
        kept = text.spans[:victim]
        kept += [(a + moved, b + moved) for a, b in text.spans[victim + 1 :]]
        for block_bytes in BLOCKS:
            found = split(new, block_bytes=block_bytes)
            expect_kept(found, new, kept, [start])
            account(found, new)
            others = {offset for offset, _ in kept}
            beyond = [offset for offset, _ in found.events if offset not in others]
            assert all(start <= offset < end + moved for offset in beyond)
            if object_at(new, start) != end + moved:
                # The victim is not whole: it was mended, or it is named.
                said = found.rejected or found.repaired or found.text.truncation
                assert said or beyond  # It may have become several objects.

    run()


@pytest.mark.parametrize("text", TEXTS[:2] + TEXTS[3:], ids=["lines", "one line", "kineto"])
def test_damage_anywhere(split: Callable[..., Any], text: Text) -> None:
    events_start, events_end = text.spans[0][0], text.spans[-1][1]

    @settings(check, max_examples=60 * EFFORT)
    @given(DAMAGE)
    def run(damage: Damage) -> None:
        new, start, end = damaged(text.data, events_start, events_end, damage)
        moved = len(new) - len(text.data)
        # An event is untouched if the damage keeps off its text and the comma on either side.
        before = [(a, b) for a, b in text.spans if b + 5 <= start]
        behind = [(a, b) for a, b in text.spans if a - 5 >= end]
        touched = [a for a, b in text.spans if a <= end and b + 5 > start]
        for block_bytes in BLOCKS:
            found = split(new, block_bytes=block_bytes)
            account(found, new)
            kept = before + [(a + moved, b + moved) for a, b in behind]
            expect_kept(found, new, kept, [*touched, *range(max(0, start - 5), start + 6)])

    run()


def test_damage_around_the_events(split: Callable[..., Any]) -> None:
    """Metadata may be lost, events may not, as long as their array is found."""
    text = TEXTS[0]
    array = text.data.index(b'"traceEvents"')
    last = text.spans[-1][1]

    @settings(check, max_examples=80 * EFFORT)
    @given(DAMAGE, st.booleans())
    def run(damage: Damage, in_front: bool) -> None:
        low, high = (1, array) if in_front else (last + 2, len(text.data))
        new, _, _ = damaged(text.data, low, high, damage)
        moved = len(new) - len(text.data) if in_front else 0
        found = split(new, block_bytes=1 << 20)
        account(found, new)
        if found.text.found_array:
            expect_kept(found, new, [(a + moved, b + moved) for a, b in text.spans], [])

    run()


def test_any_bytes_at_all(split: Callable[..., Any]) -> None:
    written = (
        rb'''{ } [ ] , : " \ "ph":"X" "traceEvents":[ {"ph":"X","ts":1,"dur":1} ,{ 1 null NaN "a"'''
    )
    pieces = st.sampled_from([*written.split(), b" ", b"\n", b"\0", b"\xff"])

    @settings(check, max_examples=200 * EFFORT)
    @given(st.lists(pieces, max_size=40).map(b"".join), st.sampled_from([1, 30, 1 << 20]))
    def run(data: bytes, block_bytes: int) -> None:
        account(split(data, block_bytes=block_bytes), data)

    run()


def test_a_gzip_stream_with_damage(split_file: Callable[..., Any], tmp_path: Path) -> None:
    packed = gzip.compress(TEXTS[3].data, mtime=0)
    path = tmp_path / "trace.json.gz"

    @settings(check, max_examples=80 * EFFORT)
    @given(DAMAGE)
    def run(damage: Damage) -> None:
        new, start, _ = damaged(packed, 12, len(packed), damage)
        path.write_bytes(new)
        found = split_file(path)
        if new != packed and start < len(packed) - 8:
            assert found.text.truncation or found.rejected or found.repaired or found.events

    run()


def test_the_whole_way_into_the_tables(load: Callable[..., Any]) -> None:
    """Also DuckDB takes whatever the splitter lets through; every event is in a table or named."""
    text = TEXTS[0]

    @settings(check, max_examples=50 * EFFORT)
    @given(st.lists(DAMAGE, min_size=1, max_size=4), st.sampled_from([400, 1 << 20]))
    def run(damages: list[Damage], block_bytes: int) -> None:
        new = text.data
        for damage in damages:
            new, _, _ = damaged(new, len(HEAD), len(new) - len(TAIL), damage)
        try:
            loaded = load(new, block_bytes=block_bytes)
        except TraceError:
            return  # Nothing is left to read.
        tables = ("event", "flow", "instant", "counter", "memory", "metadata")
        ids = [
            event_id
            for table in (*tables, "rejected")
            for (event_id,) in loaded.sql(f"SELECT event_id FROM {table}")
            if event_id is not None
        ]
        # Without a gap: each event that is well-formed JSON is in one table, or rejected.
        assert sorted(ids) == list(range(len(ids)))
        ((count, rejected, repaired),) = loaded.sql(
            "SELECT event_count, rejected_count, repaired_count FROM trace"
        )
        nameless = loaded.sql("SELECT count(*) FROM rejected WHERE event_id IS NULL")[0][0]
        assert count + rejected == len(ids) + nameless
        assert repaired == loaded.sql("SELECT count(*) FROM repaired")[0][0]

    run()


def test_many_wounds_take_no_forever(split: Callable[..., Any]) -> None:
    """A quarter of a large file is damaged: that takes longer, but not the square of its size."""
    chance = random.Random(4)
    events = [
        json.dumps({"ph": "X", "name": f"k{at}", "ts": at, "dur": 1, "args": {"x": [{"y": at}]}})
        for at in range(20_000)
    ]
    whole = []
    for at in range(len(events)):
        if chance.random() < 0.25:
            place = chance.randrange(1, len(events[at]) - 1)
            events[at] = events[at][:place] + chance.choice('"\\}]{[,:\n') + events[at][place:]
        else:
            whole.append(f"k{at}")
    found = split(("[" + ",\n".join(events) + "]").encode())
    names = {event.get("name") for _, event in found.events}
    assert names.issuperset(whole)
