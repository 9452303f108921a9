"""Good events go straight into the store; blocks with others in them are looked at again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tracekit.ingest import block_loader

Event = dict[str, Any]
EPOCH_US = "1700000000123456.789"
BLOCK_BYTES = 2000


def event(number: int, **members: Any) -> Event:
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": f"op{number}",
        "pid": 1,
        "tid": 2,
        "ts": number,
        "dur": 1,
        "args": {"External id": number},
    } | members


def text_of(events: Sequence[Event]) -> str:
    return json.dumps({"traceEvents": list(events)}, indent=1)


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first events of the blocks that went the long way."""
    blocks: list[int] = []
    real = block_loader.block_sql

    def noting(table: str, paths: Sequence[str], first_event_id: int, text_bytes: int) -> str:
        blocks.append(first_event_id)
        return real(table, paths, first_event_id, text_bytes)

    monkeypatch.setattr(block_loader, "block_sql", noting)
    return blocks


def test_a_good_trace_is_looked_at_once(load: Callable[..., Any], long_way: list[int]) -> None:
    loaded = load(text_of([event(number) for number in range(100)]), block_bytes=BLOCK_BYTES)
    assert loaded.names == [f"op{number}" for number in range(100)]
    assert loaded.sql("SELECT sum(ts_ns), sum(dur_ns), sum(external_id) FROM event") == [
        (4_950_000, 100_000, 4950)
    ]
    assert long_way == []


def test_only_the_block_of_an_unreadable_event_is_looked_at_again(
    load: Callable[..., Any], long_way: list[int]
) -> None:
    events = [event(number) for number in range(100)]
    events[50]["dur"] = -1
    content = text_of(events)
    loaded = load(content, block_bytes=BLOCK_BYTES)
    assert loaded.names == [f"op{number}" for number in range(100) if number != 50]
    [(offset, event_id, reason)] = loaded.rejected
    assert (event_id, reason) == (50, "negative dur")
    assert json.JSONDecoder().raw_decode(content[offset:])[0] == events[50]
    assert len(long_way) == 1
    assert long_way[0] <= 50
    assert loaded.sql("SELECT count(*), count(DISTINCT event_id) FROM record") == [(99, 99)]
    assert loaded.sql("SELECT event_count, rejected_count FROM trace") == [(99, 1)]


def test_a_time_that_a_double_does_not_hold_is_exact_wherever_it_stands(
    load_as_text: Callable[..., Any], long_way: list[int]
) -> None:
    """A trace of epoch times goes the long way at once; a single such event is found."""
    content = text_of([event(number) for number in range(100)])
    late = content.replace('"ts": 70,', f'"ts": {EPOCH_US},')
    loaded = load_as_text(late, block_bytes=BLOCK_BYTES)
    assert loaded.sql("SELECT ts_ns FROM event WHERE name = 'op70'") == [
        (1_700_000_000_123_456_789,)
    ]
    assert len(long_way) == 1
    long_way.clear()
    early = content.replace('"ts": 0,', f'"ts": {EPOCH_US},')
    loaded = load_as_text(early, block_bytes=BLOCK_BYTES)
    assert loaded.sql("SELECT max(ts_ns), count(*) FROM event") == [
        (1_700_000_000_123_456_789, 100)
    ]
    assert long_way[0] == 0


@pytest.mark.parametrize(
    ("time_us", "is_long"),
    [
        ("8699999999999.123", False),
        ("8700000000001.123", True),
        ("9999999999999.5", True),
        ("12345678901234.5", True),
        ("12345678901234", False),
        ("8.7", False),
    ],
)
def test_where_a_double_ends(
    load_as_text: Callable[..., Any], long_way: list[int], time_us: str, is_long: bool
) -> None:
    content = text_of([event(0)]).replace('"ts": 0,', f'"ts": {time_us},')
    whole, _, fraction = time_us.partition(".")
    [(ts_ns,)] = load_as_text(content).sql("SELECT ts_ns FROM event")
    assert ts_ns == int(whole) * 1000 + int(fraction.ljust(3, "0") or 0)
    assert bool(long_way) == is_long
