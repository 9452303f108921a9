"""Whether the parser is compiled or not: traces are read alike, odd ones too."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tracekit.ingest import chrome_json, normalize
from tracekit.ingest.byte_stream import ByteStream
from tracekit.ingest.chrome_json import EventColumns, TraceText

parser: Any = pytest.importorskip(
    "tracekit.ingest._event_parser",
    reason="the parser is not compiled: there was no C compiler at installation",
)

REPO = Path(__file__).resolve().parents[2]

PUBLIC = Path(os.environ.get("TRACEKIT_PUBLIC_TRACES") or REPO.parent / "shared" / "traces")

MAX_FILE_BYTES = 480_000

EFFORT = int(os.environ.get("TRACEKIT_FUZZ", "1"))

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


@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_real_traces_are_read_alike(load_by: LoadBy, path: Path) -> None:
    blocks = list(TraceText(ByteStream(path)).blocks())
    count = sum(block.event_count for block in blocks)
    compiled_count = sum(b.event_count for b in blocks if isinstance(b, EventColumns))
    assert compiled_count >= 0.99 * count

    loaded = load_by(True)(path.read_bytes(), path.name)
    # JSON without white space: the compiled parser leaves it out.
    everything = "SELECT * REPLACE (json(args) AS args, json(extra) AS extra) FROM record"
    loaded.sql(f"CREATE OR REPLACE TEMP TABLE compiled AS {everything}")
    others = [loaded.sql(f"FROM {table}") for table in ("thread", "rejected", "repaired")]

    loaded = load_by(False)(path.read_bytes(), path.name)
    loaded.sql(f"CREATE OR REPLACE TEMP TABLE thorough AS {everything}")
    assert loaded.sql("SELECT count(*) FROM compiled") == [(count,)]
    for one, other in (("compiled", "thorough"), ("thorough", "compiled")):
        assert loaded.sql(f"(FROM {one} EXCEPT ALL FROM {other}) ORDER BY event_id LIMIT 3") == []
    assert others == [loaded.sql(f"FROM {table}") for table in ("thread", "rejected", "repaired")]


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

LINKS = st.sampled_from([*normalize.LINKS.values(), "external id", "Stream"]).map(json.dumps)

VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2).map(lambda items: f"[{' , '.join(items)}]"),
    st.lists(st.tuples(st.one_of(LINKS, STRINGS), SCALARS), max_size=2).map(as_object),
)

MEMBERS = st.sampled_from(
    [*chrome_json.EVENT_MEMBERS, "cname", "Name", "é", "", chrome_json.EXTRA_KEY]
)

USUAL = {
    "ph": st.sampled_from("XXXXXstfiIRnCM").map('"{}"'.format),
    "ts": st.decimals(0, 10**16, places=3).map(str),
    "dur": st.integers(0, 10**12).map(str),
    "name": STRINGS,
    "args": st.lists(st.tuples(LINKS, NUMBERS), max_size=2).map(as_object),
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


def as_values(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the values of its JSON: objects as lists of pairs, which tell equal keys apart."""
    of_json = {
        key: row[key] and json.loads(row[key], object_pairs_hook=list) for key in ("args", "extra")
    }
    return row | of_json


def read_by(load: Callable[..., Any], content: str) -> tuple[list[dict[str, Any]], Any, Any]:
    loaded = load(content)
    names = [name for name, *_ in loaded.sql("DESCRIBE record")]
    rows = [as_values(dict(zip(names, row, strict=True))) for row in loaded.sql("FROM record")]
    return sorted(rows, key=lambda row: row["event_id"]), loaded.rejected, loaded.repaired


def test_odd_values_are_read_alike(load_by: LoadBy) -> None:
    """Whatever is accepted alone; what is not goes the same way with and without the parser."""

    @settings(
        max_examples=50 * EFFORT,
        deadline=None,
        derandomize=EFFORT == 1,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(events(), min_size=10, max_size=10))
    def run(texts: list[str]) -> None:
        accepted = [text for text in texts if parse(f"[{text}]") is not None]
        assume(accepted)
        content = f"[{','.join(accepted)}]"
        assert parse(content) == (len(accepted), len(content.encode()), True)
        compiled, *faults = read_by(load_by(True), content)
        thorough, *other_faults = read_by(load_by(False), content)
        for text, one, other in zip(accepted, compiled, thorough, strict=True):
            if re.search(r'"(ts|dur)": -?\d+\.\d{4}', text):
                # Half a ns may be rounded in the other direction there.
                for key in ("ts_ns", "dur_ns"):
                    assert one[key] == pytest.approx(other.pop(key), abs=1, rel=0)
                    del one[key]
            assert one == other, text
        assert faults == other_faults == [[], []]

    run()


def parse(text: str | bytes) -> tuple[int, int, bool] | None:
    """Parse the text of an array; returns the number of events, the bytes used, whether it ends."""
    parsed = parser.parse_events(text.encode() if isinstance(text, str) else text, 0)
    return None if parsed is None else parsed[1:]
