"""Copies and sets: direction, bytes, bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cases_as_ranks import AskedByRank, Cases

import tracekit

H2D, D2H = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)"


def event(
    name: str, start: float, end: float, size: object = None, category: str = "gpu_memcpy"
) -> dict[str, Any]:
    args = {"device": 0, "stream": 7} | ({} if size is None else {"bytes": size})
    shown = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": start}
    return {**shown, "dur": end - start, "args": args}


CASES = Cases()
asked = CASES.fixture()


def test_copies(tiny_trace: Callable[..., Path]) -> None:
    events = [
        event(H2D, 0, 4, 8_000),
        event(H2D, 10, 12, 4_000),
        event(H2D, 20, 30),  # Bytes unknown: counts in the time, not in the bandwidth.
        event(D2H, 40, 41, "500"),
        event("Memcpy DtoD (Device -> Device)", 50, 52),
        event("Memset (Device)", 60, 61, 64, "gpu_memset"),
        event("my_kernel", 0, 2, 1, "kernel"),  # Not its own bytes.
    ]
    with tracekit.open(tiny_trace(events, distributedInfo={"rank": 1}), cache=False) as trace:
        result = trace.query("memcpy")
        assert result.column_names == (
            "rank", "device", "direction", "name", "copy_count", "kernel_ns", "wall_ns",
            "bytes", "sized_count", "bandwidth_bytes_per_s", "sized_ns",
            "ceiling_bytes_per_s", "ceiling_pct", "ceiling_source", "ceiling_reason",
        )  # fmt: skip
        # What was measured on a device is tested by itself (test_ceilings.py).
        assert [row[:10] for row in result.rows] == [
            (1, "0", "memcpy_h2d", H2D, 3, 16_000, 14_000, 12_000, 2, 2e9),
            (
                1,
                "0",
                "memcpy_d2d",
                "Memcpy DtoD (Device -> Device)",
                1,
                2_000,
                2_000,
                None,
                0,
                None,
            ),
            (1, "0", "memcpy_d2h", D2H, 1, 1_000, 1_000, 500, 1, 5e8),
            (1, "0", "memset", "Memset (Device)", 1, 1_000, 1_000, 64, 1, 6.4e7),
        ]


# On AMD a copy may be a kernel; its name says so, not its category.
COPY_BY_KERNEL = CASES.add([event("__amd_rocclr_copyBuffer", 0, 2, None, "kernel")])


def test_copies_that_are_kernels(asked: AskedByRank) -> None:
    (row,) = asked.rows(COPY_BY_KERNEL, "memcpy")
    assert (row["direction"], row["copy_count"], row["bytes"]) == ("memcpy_d2d", 1, None)


WITHOUT_DURATION = CASES.add([event(H2D, 1, 1, 100)])


def test_a_copy_of_no_duration_has_no_bandwidth(asked: AskedByRank) -> None:
    (row,) = asked.rows(WITHOUT_DURATION, "memcpy")
    assert (row["bytes"], row["sized_count"], row["bandwidth_bytes_per_s"]) == (100, 1, None)


WITHOUT_COPIES = CASES.add([event("k", 0, 1, None, "kernel")])


def test_no_copies_no_rows(asked: AskedByRank) -> None:
    assert asked.rows(WITHOUT_COPIES, "memcpy") == []


def test_rates_over_time_are_of_all_copies_at_once(tiny_trace: Callable[..., Path]) -> None:
    """Four parts of 10 µs: two copies at once in the second one, one of them on into the third."""
    other = {"device": 0, "stream": 9}
    events = [
        event("my_kernel", 0, 40, category="kernel"),
        event(H2D, 10, 20, 1000),
        {**event(H2D, 15, 25), "tid": 9, "args": {**other, "bytes": 500}},
        event(D2H, 39, 39, 7),
        event(D2H, 21, 22),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        rows = trace.query("memcpy_over_time", points=4).to_dicts()
    keys = ("direction", "start_ns", "dur_ns", "copy_count", "busy_ns", "bytes", "bytes_per_s")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("memcpy_d2h", 20_000, 10_000, 1, 1_000, None, None),
        ("memcpy_d2h", 30_000, 10_000, 1, 1, 7, 7e5),
        ("memcpy_h2d", 10_000, 10_000, 2, 15_000, 1250, 1.25e8),
        ("memcpy_h2d", 20_000, 10_000, 1, 5_000, 250, 2.5e7),
    ]
