"""Analyses collective_skew and rank_summary: of eight real ranks; small runs are in tests/cases."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path

import tracekit

# What stands in the eight files, in µs by rank: the durations of the first and second all-to-all
# and of the third all-reduce.
BY_HAND = {
    ("comm_alltoall", 1): (2146, 7635, 518, 6132, 4882, 4679, 514, 10),
    ("comm_alltoall", 2): (1032, 1025, 517, 1021, 1108, 1060, 520, 8),
    ("comm_allreduce", 3): (952, 922, 915, 879, 69, 79, 920, 803),
}


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
