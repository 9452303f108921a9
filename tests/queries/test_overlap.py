"""Analysis overlap and macro interval_pairs: which compute runs under which communication."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
from every_trace import Answered, on_every_trace
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis.catalog import load_catalog


@on_every_trace
def test_rows_add_up_to_the_time_in_communication(answered: Answered, path: Path) -> None:
    ask = answered(path)
    parts: Counter[tuple[int | None, str]] = Counter()
    for row in ask("overlap", limit=3).to_dicts():
        parts[row["rank"], row["device"]] += row["overlap_ns"]
    timeline = ask("timeline").to_dicts()
    comm = {(row["rank"], row["device"]): row["comm_ns"] for row in timeline}
    assert {place: ns for place, ns in comm.items() if ns} == dict(parts)


def disjoint(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals from the gap before each, which may be none, and its length."""
    found, at = [], 0
    for gap, length in gaps:
        found.append((at + gap, at + gap + length))
        at += gap + length
    return found


intervals = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8).map(disjoint)


@settings(max_examples=60, deadline=None)
@given(intervals, intervals)
def test_pairs_are_those_of_a_comparison_of_all(
    lefts: list[tuple[int, int]], rights: list[tuple[int, int]]
) -> None:
    connection = duckdb.connect()
    for name, rows in (("l", lefts), ("r", rights)):
        connection.execute(
            f"CREATE TABLE {name} (part VARCHAR, id BIGINT, start_ns BIGINT, end_ns BIGINT)"
        )
        for number, (start, end) in enumerate(rows):
            connection.execute(f"INSERT INTO {name} VALUES ('p', {number}, {start}, {end})")
    connection.execute(load_catalog().functions["interval_pairs"].sql)
    found = connection.execute("FROM interval_pairs('l', 'r') ORDER BY ALL").fetchall()
    expected = [
        (i, j, min(a[1], b[1]) - max(a[0], b[0]))
        for i, a in enumerate(lefts)
        for j, b in enumerate(rights)
        if min(a[1], b[1]) > max(a[0], b[0])
    ]
    assert found == expected
