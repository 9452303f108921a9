"""Peaks of memory of real traces, read another way; small ones are in tests/cases/memory.case."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest


def plainly_read(path: Path) -> dict[bool, tuple[int, int, int]]:
    """Return by whether it is the host: the peak, what is known of it, and of how many blocks."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    live: defaultdict[bool, dict[int, int]] = defaultdict(dict)
    peaks: dict[bool, tuple[int, int, int]] = {}
    for event in json.loads(text)["traceEvents"]:
        if event.get("name") == "[memory]":
            args = event["args"]
            is_host = args["Device Type"] == 0
            held = live[is_host]
            held.pop(args["Addr"], None)
            if args["Bytes"] > 0:
                held[args["Addr"]] = args["Bytes"]
            if args["Total Allocated"] > peaks.get(is_host, (-1,))[0]:
                peaks[is_host] = args["Total Allocated"], sum(held.values()), len(held)
    return peaks


@pytest.mark.parametrize("name", ["tl_h100_owlv2_large", "tl_h100_qwen", "tl_mi300_qwen"])
def test_peaks_of_public_traces(name: str, public_traces: Path, opened: Any) -> None:
    path = public_traces / f"{name}.json.gz"
    trace = opened(path)
    rows = {row["device"] == "cpu": row for row in trace.query("memory_peaks").to_dicts()}
    wanted = plainly_read(path)
    assert rows.keys() == wanted.keys()
    for is_host, (allocated, known, count) in wanted.items():
        row = rows[is_host]
        assert (row["allocated_bytes"], row["block_count"]) == (allocated, count)
        assert row["before_bytes"] == allocated - known
        held = [
            one["bytes"]
            for one in trace.query("memory_peak").to_dicts()
            if (one["device"] == "cpu") == is_host
        ]
        assert sum(held) == allocated


def test_the_highest_of_all_is_always_in_what_is_drawn(public_traces: Path, opened: Any) -> None:
    trace = opened(public_traces / "tl_h100_qwen.json.gz")
    (peak,) = trace.sql("SELECT max(total_allocated_bytes) AS peak FROM memory").column("peak")
    for points in (1, 7, 1_000):
        rows = trace.query("memory_over_time", points=points)
        assert max(rows.column("allocated_bytes")) == peak
