"""Measured ceilings are in a breakdown and in no store; shares are in tests/cases/ceilings.case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from traces_by_hand import kernel

import tracekit

NAME = "NVIDIA H100 80GB HBM3"
GPU = {"device": "cuda:0", "device_name": NAME, "unit_count": 132, "thread_count": 8}


def test_a_breakdown_has_the_shares_too(
    cache: Path, tiny_trace: Callable[..., Path], make_bench: Callable[..., Path]
) -> None:
    copy = {"family": "memcpy", "op": "d2d", "message_bytes": 2000, "median_ns": 10_000.0}
    events = [kernel("Memcpy DtoD (Device -> Device)", 0, 10, 1, bytes=1000)]
    path = tiny_trace(events, deviceProperties=[{"id": 0, "name": NAME, "numSms": 132}])
    bench = make_bench("b", [copy], **GPU)
    for _ in range(2):
        with tracekit.open(path, ceilings=bench) as trace:
            (row,) = trace.breakdown()["memcpy"].to_dicts()
            assert row["ceiling_pct"] == pytest.approx(50)
    # Nothing of it is kept with the store.
    with tracekit.open(path) as trace:
        (row,) = trace.breakdown()["memcpy"].to_dicts()
        assert row["ceiling_pct"] is None
        assert trace.connection.execute("FROM device_ceiling").fetchall() == []
