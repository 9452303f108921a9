"""Analyses collective_skew and rank_summary: who waits for whom, by durations alone."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import kernel as on_device

import tracekit

# What stands in the eight files, in µs by rank: the durations of the first and second all-to-all
# and of the third all-reduce.
BY_HAND = {
    ("comm_alltoall", 1): (2146, 7635, 518, 6132, 4882, 4679, 514, 10),
    ("comm_alltoall", 2): (1032, 1025, 517, 1021, 1108, 1060, 520, 8),
    ("comm_allreduce", 3): (952, 922, 915, 879, 69, 79, 920, 803),
}


kernel = partial(on_device, stream=20)


def all_reduce(start: float, end: float, seq: int | None = None, **args: Any) -> dict[str, Any]:
    told = {
        "Collective name": "allreduce",
        "In msg nelems": 100,
        "Out msg nelems": 100,
        "Group size": 3,
        "dtype": "Float",
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1, 2]",
    }
    if seq is not None:
        told["Seq"] = seq
    return kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", start, end, **told, **args)


@pytest.fixture
def run(tiny_trace: Callable[..., Path]) -> Callable[..., tracekit.Trace]:
    def open_run(*ranks: list[dict[str, Any]]) -> tracekit.Trace:
        paths = [
            tiny_trace(
                events,
                f"rank{rank}.json",
                distributedInfo={"backend": "nccl", "rank": rank, "world_size": 3},
            )
            for rank, events in enumerate(ranks)
        ]
        return tracekit.open(*paths, cache=False)

    return open_run


def test_wait_and_transfer_on_paper(run: Callable[..., tracekit.Trace]) -> None:
    """The clocks are apart: only durations count. Rank 1 comes last to Seq 1, rank 0 to Seq 2."""
    with run(
        [all_reduce(0, 50, 1), all_reduce(60, 70, 2)],
        [all_reduce(9000, 9010, 1), all_reduce(9100, 9130, 2)],
        [all_reduce(500, 530, 1), all_reduce(600, 615, 2)],
    ) as trace:
        first, second = trace.query("collective_skew").to_dicts()
        ranks = trace.query("rank_summary").to_dicts()
    assert (first["matched_by"], first["number"]) == ("seq", 1)
    assert (first["rank_count"], first["expected_count"]) == (3, 3)
    assert (first["transfer_ns"], first["max_dur_ns"], first["max_wait_ns"]) == (
        10_000,
        50_000,
        40_000,
    )
    assert (first["wait_ns"], first["straggler_rank"], first["longest_waiting_rank"]) == (
        60_000,
        1,
        0,
    )
    assert first["wait_pct"] == pytest.approx(100 * 60 / 90)
    assert (second["number"], second["wait_ns"], second["straggler_rank"]) == (2, 25_000, 0)
    columns = (
        "rank",
        "transfer_ns",
        "comm_wait_ns",
        "last_count",
        "caused_wait_ns",
        "is_straggler",
    )
    assert [tuple(row[column] for column in columns) for row in ranks] == [
        (0, 20_000, 40_000, 1, 25_000, False),
        (1, 20_000, 20_000, 1, 60_000, True),
        (2, 20_000, 25_000, 0, 0, False),
    ]


def test_seq_matches_what_order_would_mix_up(run: Callable[..., tracekit.Trace]) -> None:
    """Rank 0 lost its first collective at the edge of its window."""
    with run([all_reduce(60, 70, 2)], [all_reduce(0, 10, 1), all_reduce(100, 130, 2)]) as trace:
        rows = trace.query("collective_skew").to_dicts()
    assert [(row["number"], row["rank_count"], row["wait_ns"]) for row in rows] == [
        (2, 2, 20_000),
        (None, 1, None),
    ]
    assert rows[1]["reason"] == "no other rank recorded it"


def test_different_numbers_without_seq_are_not_matched(run: Callable[..., tracekit.Trace]) -> None:
    with run([all_reduce(60, 70)], [all_reduce(0, 10), all_reduce(100, 130)]) as trace:
        rows = trace.query("collective_skew").to_dicts()
        ranks = trace.query("rank_summary").to_dicts()
    assert sum(row["call_count"] for row in rows) == 3
    assert {row["number"] for row in rows} == {None}
    assert "ranks recorded different numbers of them, and no Seq tells which is which" in {
        row["reason"] for row in rows
    }
    assert {row["is_straggler"] for row in ranks} == {None}
    assert {(row["rank_count"], row["world_size"]) for row in ranks} == {(2, 3)}


def durations(path: Path) -> dict[str, list[int]]:
    """The durations of SendRecv and AllReduce kernels of a file in order of their start, ns."""
    with gzip.open(path) as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    found: dict[str, list[int]] = {}
    for event in sorted(
        (event for event in events if str(event.get("name")).startswith("ncclKernel_")),
        key=lambda event: event["ts"],
    ):
        if event.get("cat") == "kernel":
            kind = event["name"].split("_")[1]
            found.setdefault(kind, []).append(int(event["dur"] * 1000))
    return found


def test_three_collectives_of_a_real_run_by_hand(public_traces: Path) -> None:
    """A DLRM step on eight V100s: the figures are those of the files, written down."""
    folder = public_traces / "param_dlrm_8ranks"
    with tracekit.open(folder, cache=False) as trace:
        rows = trace.query("collective_skew").to_dicts()
        ranks = trace.query("rank_summary").to_dicts()
    assert len(rows) == 8
    assert {row["matched_by"] for row in rows} == {"order"}
    assert {(row["rank_count"], row["expected_count"], row["reason"]) for row in rows} == {
        (8, 8, None)
    }
    found = {(row["class"], row["number"]): row for row in rows}
    core = ("transfer_ns", "max_dur_ns", "wait_ns", "straggler_rank", "longest_waiting_rank")
    figures = {
        ("comm_alltoall", 1): (10_000, 7_635_000, 26_436_000, 7, 1),
        ("comm_alltoall", 2): (8_000, 1_108_000, 6_227_000, 7, 4),
        ("comm_allreduce", 3): (69_000, 952_000, 4_987_000, 4, 0),
    }
    for key, expected in figures.items():
        assert tuple(found[key][column] for column in core) == expected
        shortest = min(BY_HAND[key])
        assert expected[2] == 1000 * sum(dur_us - shortest for dur_us in BY_HAND[key])
    assert [row["rank"] for row in ranks if row["is_straggler"]] == [7]
    assert [row["last_count"] for row in ranks] == [0, 0, 0, 0, 1, 2, 0, 5]

    # The same from the files, by another way.
    files = sorted(folder.glob("worker*.json.gz"))
    by_rank = [durations(path) for path in files]
    for kind, name in (("comm_alltoall", "SendRecv"), ("comm_allreduce", "AllReduce")):
        for number, column in enumerate(zip(*(each[name] for each in by_rank), strict=True), 1):
            row = found[kind, number]
            if (kind, number) in BY_HAND:
                assert column == tuple(1000 * dur_us for dur_us in BY_HAND[kind, number])
            assert row["transfer_ns"] == min(column)
            assert row["wait_ns"] == sum(column) - 8 * min(column)
            assert column[row["straggler_rank"]] == min(column)


def test_two_ranks_taken_away(public_traces: Path) -> None:
    """Without ranks 1 and 7, the last of most; the rest is what the files of the others give."""
    folder = public_traces / "param_dlrm_8ranks"
    files = [path for path in sorted(folder.glob("*.json.gz")) if path.name[6] not in "17"]
    with tracekit.open(*files, cache=False) as trace:
        rows = trace.query("collective_skew").to_dicts()
        ranks = trace.query("rank_summary").to_dicts()
    by_rank = {int(path.name[6]): durations(path) for path in files}
    assert {(row["rank_count"], row["expected_count"]) for row in rows} == {(6, 8)}
    assert len(rows) == 8
    for row in rows:
        name = "SendRecv" if row["class"] == "comm_alltoall" else "AllReduce"
        column = {rank: each[name][row["number"] - 1] for rank, each in by_rank.items()}
        assert row["transfer_ns"] == min(column.values())
        assert row["wait_ns"] == sum(column.values()) - 6 * min(column.values())
        assert column[row["straggler_rank"]] == min(column.values())
    assert [row["rank"] for row in ranks] == [0, 2, 3, 4, 5, 6]
    assert {(row["rank_count"], row["world_size"]) for row in ranks} == {(6, 8)}
    assert sum(row["comm_wait_ns"] for row in ranks) == sum(row["wait_ns"] for row in rows)
