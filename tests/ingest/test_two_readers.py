"""Both readers give the same rows, to the byte, and say the same of what is wrong."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracekit.errors import TraceError
from tracekit.event_description import LINKS, MEMBER_KEYS
from tracekit.ingest.event_collector import EventCollector

pytest.importorskip(
    "tracekit.ingest._event_parser",
    reason="the parser is not compiled: there was no C compiler at installation",
)

REPO = Path(__file__).resolve().parents[2]
PUBLIC = Path(os.environ.get("TRACEKIT_PUBLIC_TRACES") or REPO.parent / "shared" / "traces")
MAX_FILE_BYTES = 480_000
"""Larger traces take too long to be read twice here."""

EFFORT = int(os.environ.get("TRACEKIT_FUZZ", "1"))
"""More than 1: so many times the examples, and other ones each time."""

LoadBy = Callable[[bool], Callable[..., Any]]


def small_traces(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.rglob("*.json.gz") if path.stat().st_size <= MAX_FILE_BYTES
    )


TRACES = [
    *small_traces(REPO / "sample_traces"),
    *small_traces(REPO / "tests" / "traces"),
    *(
        small_traces(PUBLIC)
        or [pytest.param(PUBLIC, marks=pytest.mark.skip(reason=f"no public traces in {PUBLIC}"))]
    ),
]
CORPUS = sorted((REPO / "tests" / "corpus" / "trace").iterdir())
TABLES = ("record", "thread", "rejected", "repaired", "unpaired", "trace")


@pytest.fixture
def odd_count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the events that the compiled reader hands over."""
    handed: list[int] = []
    read_event = EventCollector.read_event

    def noting(self: EventCollector, text: bytes, offset: int, event_id: int) -> Any:
        handed.append(event_id)
        return read_event(self, text, offset, event_id)

    monkeypatch.setattr(EventCollector, "read_event", noting)
    return handed


def keep(loaded: Any) -> None:
    """Keep what was loaded, with JSON as the text that it is."""
    for table in TABLES:
        loaded.sql(f"CREATE OR REPLACE TEMP TABLE kept_{table} AS SELECT * FROM {table}")


def differences(loaded: Any) -> list[tuple[Any, ...]]:
    """Rows of what was kept or of what is loaded now, but not of both."""
    found = []
    for table in TABLES:
        kept, now = (f"SELECT COLUMNS(*)::VARCHAR FROM {name}" for name in (f"kept_{table}", table))
        gone = loaded.sql(f"{kept} EXCEPT ALL {now} LIMIT 3")
        found += [("gone", table, *row) for row in gone]
        ((kept_count, now_count),) = loaded.sql(
            f"SELECT (SELECT count(*) FROM kept_{table}), (SELECT count(*) FROM {table})"
        )
        # Of as many rows, none is new where none is gone.
        if gone or kept_count != now_count:
            new = loaded.sql(f"{now} EXCEPT ALL {kept} LIMIT 3")
            found += [("new", table, *row) for row in new]
    return found


def not_as_in_python(
    loaded: Any, load_by: LoadBy, content: bytes, name: str = "trace.json"
) -> list[tuple[Any, ...]]:
    """Read what the compiled reader has loaded in Python as well; return what differs."""
    keep(loaded)
    return differences(load_by(False)(content, name))


def read_both(load_by: LoadBy, content: bytes, name: str) -> list[tuple[Any, ...]]:
    """Read a file in both ways; return what differs."""
    try:
        loaded = load_by(True)(content, name)
    except TraceError as error:
        try:
            load_by(False)(content, name)
        except TraceError as other:
            return [(error.message, other.message)] if error.message != other.message else []
        return [(error.message, "read")]
    try:
        return not_as_in_python(loaded, load_by, content, name)
    except TraceError as error:
        return [("read", error.message)]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_real_traces_are_read_alike(load_by: LoadBy, path: Path, odd_count: list[int]) -> None:
    content = path.read_bytes()
    loaded = load_by(True)(content, path.name)
    ((count,),) = loaded.sql("SELECT event_count FROM trace")
    # Nearly all events are usual ones.
    assert len(odd_count) <= 0.01 * count
    assert not_as_in_python(loaded, load_by, content, path.name) == []


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_corpus_is_read_alike(load_by: LoadBy, path: Path) -> None:
    assert read_both(load_by, path.read_bytes(), "trace.json") == []


def as_object(members: Iterable[tuple[str, str]], separator: str = ", ") -> str:
    return "{" + separator.join(f"{key}: {value}" for key, value in members) + "}"


ODD_STRINGS = [
    *('"X"', '"[memory]"', r'"\u0041"', r'"\/\b"', r'"\ud83d\ude00"', r'"\ud800"', r'"\udc00x"'),
    *(r'"\u0000"', '""', '" 5"', '"5 "', '"0x1F"', '"0xg"', '"-0x1"', '"007"', '"+5"', '"1_000"'),
    *('"1e3"', '"1.5"', '".5"', '"5."', '"-"', '"-0"', '"-5"', '"nan"', '"inf"', '"true"'),
    *('"null"', '"stream 7"', '"5a"', '"9223372036854775807"', '"9223372036854775808"'),
]
ODD_NUMBERS = [
    *("-0", "-0.0", "0.0004", "-0.0004", "0.0005", "1.2345", "1.23451", "1e3", "1E-3", "-1e0"),
    *("1e400", "NaN", "01", "1.", ".5", "0xA", "1700000000123456.7894", "4000000000000000"),
    *("4000000000000001", "-400000000000000", "-400000000000001", "1000000000000"),
    *("999999999999.9994", "999999999999.9996", "1000000000000.0001"),
]
STRINGS = st.one_of(
    st.text(max_size=5).map(json.dumps),
    st.text(st.characters(exclude_categories=["C"], exclude_characters='"\\'), max_size=5).map(
        '"{}"'.format
    ),
    st.sampled_from(ODD_STRINGS),
)
NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.integers(-9, 9999).map(str),
    st.decimals(-(10**16), 10**16, places=3).map(str),
    st.sampled_from(ODD_NUMBERS),
)
SCALARS = st.one_of(STRINGS, NUMBERS, st.sampled_from(["true", "false", "null"]))
LINK_KEYS = st.sampled_from([*(key for link in LINKS for key in link.keys), "Stream"]).map(
    json.dumps
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2).map(lambda items: f"[{' , '.join(items)}]"),
    st.lists(st.tuples(st.one_of(LINK_KEYS, STRINGS), SCALARS), max_size=2).map(as_object),
)
MEMBERS = st.sampled_from([*MEMBER_KEYS, "cname", "Name", "é", "", r"n\u0061me"])
USUAL = {
    "ph": st.sampled_from("XXXXXstfiIRnCM").map('"{}"'.format),
    "ts": st.decimals(0, 10**16, places=3).map(str),
    "dur": st.integers(0, 10**12).map(str),
    "name": STRINGS,
    "args": st.lists(st.tuples(LINK_KEYS, NUMBERS), max_size=2).map(as_object),
}


@st.composite
def events(draw: st.DrawFn) -> str:
    """An event that is usual but for a few members."""
    members = draw(st.fixed_dictionaries(USUAL))
    members |= draw(st.dictionaries(MEMBERS, VALUES, max_size=3))
    for key in draw(st.sets(MEMBERS, max_size=1)):
        members.pop(key, None)
    separator = draw(st.sampled_from([",", ", ", " ,\n\t"]))
    return as_object(((f'"{key}"', members[key]) for key in sorted(members)), separator)


def test_odd_values_are_read_alike(load_by: LoadBy) -> None:
    """Usual and odd events side by side: each in its place, and to the byte."""

    @settings(
        max_examples=15 * EFFORT,
        deadline=None,
        derandomize=EFFORT == 1,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(events(), min_size=40, max_size=40))
    def run(texts: list[str]) -> None:
        content = f"[{','.join(texts)}]".encode()
        assert read_both(load_by, content, "trace.json") == [], texts

    run()


USUAL_EVENT = (
    '{"ph": "X", "cat": "kernel", "name": "k%d", "pid": 0, "tid": 7, "ts": %d.5, "dur": 2, '
    '"args": {"External id": %d, "stream": 7, "x": [1.50, {"y": "\\u00e9\\/"}]}}'
)
ODD_MEMBERS = {
    "args that are no object": ('"args": {', '"args": [1], "other": {'),
    "a member twice": ('"pid": 0', '"pid": 0, "pid": 1'),
    "an escaped key": ('"name"', r'"n\u0061me"'),
    "an exponent": ('"dur": 2', '"dur": 2e0'),
    "half a nanosecond": ('"dur": 2', '"dur": 2.0005'),
    "a negative duration": ('"dur": 2', '"dur": -2'),
    "an unknown phase": ('"ph": "X"', '"ph": "q"'),
    "a time that is none": ('"ts": ', '"ts": "soon", "was": '),
    "digits beyond 64 bits": ('"stream": 7', '"stream": 1' + "0" * 30),
    "an argument twice": ('"stream": 7', '"stream": 7, "stream": 8'),
}


@pytest.mark.parametrize("case", ODD_MEMBERS)
def test_one_odd_event_is_handed_over_alone(
    load_by: LoadBy, odd_count: list[int], case: str
) -> None:
    """Not its block: order, counts and places are those of the reader in Python."""
    texts = [USUAL_EVENT % (number, number, number) for number in range(60)]
    usual, odd = ODD_MEMBERS[case]
    texts[40] = texts[40].replace(usual, odd, 1)
    content = ("[" + ",\n".join(texts) + "]").encode()
    loaded = load_by(True)(content)
    assert odd_count == [40]
    ids = [event_id for (event_id,) in loaded.sql("SELECT event_id FROM record ORDER BY rowid")]
    rejected = [event_id for _, event_id, _ in loaded.rejected]
    assert ids == [number for number in range(60) if number not in rejected]
    assert rejected in ([], [40])
    assert not_as_in_python(loaded, load_by, content) == []


def test_a_file_of_odd_events_only(load_by: LoadBy, odd_count: list[int]) -> None:
    texts = [
        USUAL_EVENT.replace('"dur": 2', '"dur": 2e0') % (number, number, number)
        for number in range(3000)
    ]
    content = gzip.compress(("[" + ",".join(texts) + "]").encode())
    loaded = load_by(True)(content, "trace.json.gz")
    assert odd_count == list(range(3000))
    assert loaded.sql("SELECT count(*), sum(dur_ns), max(event_id) FROM event") == [
        (3000, 6_000_000, 2999)
    ]
    assert not_as_in_python(loaded, load_by, content, "trace.json.gz") == []


@pytest.mark.parametrize("block_bytes", [100, 1000, 5000])
def test_block_seams_among_odd_events(load_by: LoadBy, block_bytes: int) -> None:
    texts = [USUAL_EVENT % (number, number, number) for number in range(200)]
    for number, (usual, odd) in enumerate(ODD_MEMBERS.values()):
        texts[17 * number + 5] = texts[17 * number + 5].replace(usual, odd, 1)
    texts[100] = texts[100].replace('"k100"', '"k"100"')
    texts[150] = texts[150].replace('"stream": 7', '"stream": NaN')
    content = ("[" + ",\n".join(texts) + "]").encode()
    whole = load_by(False)(content)
    expected = whole.everything(), whole.rejected, whole.repaired
    for is_compiled in (True, False):
        loaded = load_by(is_compiled)(content, block_bytes=block_bytes)
        assert (loaded.everything(), loaded.rejected, loaded.repaired) == expected
