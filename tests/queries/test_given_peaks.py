"""Peaks that the user gives: --device, --peak, and Trace.assume_peaks()."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import span, work

import tracekit
from tracekit.errors import QueryError

# A product of 2 × 1000³ operations in 4 µs: 5e14 FLOP/s, on a device that the file does not name.
EVENTS = [
    span(
        *("cpu_op", "aten::mm", 0, 5),
        **{"Input Dims": [[1000, 1000], [1000, 1000]], "Input type": ["c10::BFloat16"] * 2},
    ),
    *work(1, 10, 14, 1, "sm90_xmma_gemm_bf16"),
]


@pytest.fixture
def product(tiny_trace: Callable[..., Path]) -> Path:
    return tiny_trace(EVENTS)


def row_of(trace: tracekit.Trace) -> dict[str, Any]:
    (row,) = trace.query("gemms").to_dicts()
    return row


def test_peaks_are_given_and_said_to_be(product: Path) -> None:
    with tracekit.open(product, cache=False) as trace:
        before = row_of(trace)
        assert before["reason"] == "the peak of this device is not known"
        assert (before["peak_pct"], before["peak_source"]) == (None, None)
        trace.assume_peaks("MI300X")
        of_device = row_of(trace)
        assert of_device["peak_pct"] == pytest.approx(100 * 5e14 / 1307.4e12)
        assert of_device["peak_source"].startswith("given: AMD Instinct MI300X, ")
        trace.assume_peaks(bf16=1e15, memory=4e12)
        given = row_of(trace)
        assert (given["peak_pct"], given["reason"]) == (50.0, None)
        assert given["peak_source"] == "given: bf16, memory given"
        # Analyses that are made at the same time, on connections of their own, see them too.
        (total,) = trace.results(["gemm_totals", "roofline"])["gemm_totals"].to_dicts()
        assert total["peak_pct"] == 50.0
        (step,) = trace.query("mfu").to_dicts()
        assert (step["mfu_pct"], step["peak_source"]) == (50.0, given["peak_source"])
        (bound,) = trace.query("compute_memory").to_dicts()
        assert (bound["ridge_flop_per_byte"], bound["attainable_pct"]) == (250.0, 50.0)
        with pytest.raises(QueryError, match="peak of bf61: no such type is known"):
            trace.assume_peaks(bf61=1e15)
        with pytest.raises(QueryError, match="device=X9: no such device is known"):
            trace.assume_peaks("X9")


def test_the_options_leave_what_is_kept_alone(cli: Callable[..., Any], product: Path) -> None:
    def asked(*options: str) -> dict[str, Any]:
        done = cli("query", "gemms", product, "--format", "json", *options)
        assert done.exit_code == 0, done.stderr
        (row,) = json.loads(done.stdout)
        return dict(row)

    before = asked()
    assert asked("--peak", "bf16=1e15")["peak_pct"] == 50.0
    assert asked() == before
    refused = cli("query", "gemms", product, "--peak", "bf16")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--peak: 'bf16' cannot be read" in refused.stderr


def test_a_step_without_the_profiler_has_a_utilisation_of_its_own(
    tiny_trace: Callable[..., Path],
) -> None:
    """Half of the peak in 4 µs: 10 % of it in a recorded step of 20 µs, 25 % in one of 8."""
    step = span("user_annotation", "ProfilerStep#1", 0, 14)
    after = span("user_annotation", "ProfilerStep#2", 20, 34)
    later = [
        *(event | {"ts": event["ts"] + 20} for event in EVENTS[:1]),
        *work(21, 30, 34, 2, "sm90_xmma_gemm_bf16"),
    ]
    with tracekit.open(tiny_trace([step, *EVENTS, after, *later]), cache=False) as trace:
        trace.assume_peaks(bf16=1e15)
        (first, _) = trace.query("mfu").to_dicts()
        trace.assume_plain_step(8_000)
        (of_run, _) = trace.query("mfu").to_dicts()
    assert first["run_mfu_pct"] is None
    assert of_run["mfu_pct"] == first["mfu_pct"]
    assert of_run["mfu_pct"] * of_run["step_ns"] == pytest.approx(200 * 1_000)
    assert of_run["run_mfu_pct"] == 25.0
