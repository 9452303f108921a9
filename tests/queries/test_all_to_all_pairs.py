"""Analysis all_to_all_pairs: bytes from each rank to each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cases_as_ranks import opened_as_ranks
from traces_by_hand import Event, call, kernel, span

EVEN, CUT = "[]", "[1, 2, ...]"


def all_to_all(
    at: float, correlation: int, splits: tuple[str, str], out_rows: int = 6, **more: Any
) -> list[Event]:
    """An all-to-all of 6 rows of two floats in, and some out, between ranks 0 and 1."""
    about = {
        "Collective name": "all_to_allv",
        "dtype": "Float",
        "Group size": 2,
        "In msg nelems": 12,
        "Out msg nelems": 2 * out_rows,
        "Process Group Name": "ep",
        "In split size": splits[0],
        "Out split size": splits[1],
        **(more or {"Process Group Ranks": "[0, 1]"}),
    }
    return [
        span("cpu_op", "record_param_comms", at, at + 5, **about),
        call(at + 1, at + 2, correlation),
        kernel("ncclDevKernel_SendRecv(x)", at + 10, at + 12, correlation, stream=20),
    ]


def test_bytes_between_ranks(tmp_path: Path) -> None:
    """Of 6 rows of 8 bytes rank 0 sends 2 to rank 1, which sends all 6; then both 3 to each."""
    by_stride = {"Global rank start": 0, "Global rank stride": 1}
    beyond = {"Global rank start": 2**62, "Global rank stride": 2**62}
    cases = [
        [
            *all_to_all(0, 1, ("[4, 2]", "[4, 6]"), 10),
            *all_to_all(100, 2, (EVEN, EVEN), **by_stride),
            *all_to_all(200, 3, (CUT, CUT)),
            *all_to_all(300, 4, (EVEN, EVEN), **beyond),
        ],
        [
            *all_to_all(0, 1, ("[6, 0]", "[2, 0]"), 2),
            *all_to_all(100, 2, (EVEN, EVEN), **by_stride),
        ],
    ]
    with opened_as_ranks(tmp_path, cases) as trace:
        rows = trace.query("all_to_all_pairs").rows
    assert rows == [
        ("ep", None, 0, 0, 2, 32 + 24, 32 + 24, 1),
        ("ep", None, 0, 1, 2, 16 + 24, 16 + 24, 1),
        ("ep", None, 1, 0, 2, 48 + 24, 48 + 24, 1),
        ("ep", None, 1, 1, 2, 24, 24, 1),
    ]
