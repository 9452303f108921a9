"""Analysis roofline: memory bounds the rate below the ridge, arithmetic above it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from traces_by_hand import kernel

import tracekit

H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]


def test_the_roof_of_a_known_device_by_its_data_sheet(tiny_trace: Callable[..., Path]) -> None:
    """An H100 SXM reaches 989.5 TFLOP/s in bf16 and 3.35 TB/s: the ridge is at 295.4."""
    trace_file = tiny_trace([kernel("k", 0, 10)], deviceProperties=H100)
    with tracekit.open(trace_file, cache=False) as trace:
        rows = [row for row in trace.query("roofline").to_dicts() if row["dtype"] == "bf16"]
    assert {row["roof"] for row in rows} == {"data sheet"}
    ridge = 989.5e12 / 3.35e12
    points = [(row["intensity_flop_per_byte"], row["flop_per_s"]) for row in rows]
    assert points == [
        (pytest.approx(0.1), pytest.approx(0.335e12)),
        (pytest.approx(ridge), pytest.approx(989.5e12)),
        (pytest.approx(4 * ridge), pytest.approx(989.5e12)),
    ]
    assert all(row["ridge_flop_per_byte"] == pytest.approx(ridge) for row in rows)


def test_an_unknown_device_has_no_roof(tiny_trace: Callable[..., Path]) -> None:
    with tracekit.open(tiny_trace([kernel("k", 0, 10)]), cache=False) as trace:
        assert trace.query("roofline").rows == []
