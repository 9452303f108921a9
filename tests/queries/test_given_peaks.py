"""Peaks, measured peak rates, and unprofiled step times that users provide."""

import json

import pytest
from traces_by_hand import span, work

import tracekit
from tracekit.errors import QueryError, UsageError

# A GEMM of 2 × 1000³ operations in 4 µs: 5e14 FLOP/s, on a device that the file does not name.
GEMM = [
    span(
        *("cpu_op", "aten::mm", 0, 5),
        **{"Input Dims": [[1000, 1000], [1000, 1000]], "Input type": ["c10::BFloat16"] * 2},
    ),
    *work(1, 10, 14, 1, "sm90_xmma_gemm_bf16"),
]


@pytest.fixture
def product(tiny_trace):
    return tiny_trace(GEMM)


def row_of(trace, analysis="gemms"):
    (row,) = trace.query(analysis).to_dicts()
    return row


def test_given_peaks_are_reported_as_given(product):
    with tracekit.open(product, cache=False) as trace:
        before = row_of(trace)
        assert (before["peak_pct"], before["peak_source"]) == (None, None)
        trace.assume_peaks("MI300X")
        of_device = row_of(trace)
        assert of_device["peak_pct"] == pytest.approx(100 * 5e14 / 1307.4e12)
        assert of_device["peak_source"].startswith("given: AMD Instinct MI300X, ")
        trace.assume_peaks(bf16=1e15, memory=4e12)
        given = row_of(trace)
        assert (given["peak_pct"], given["reason"]) == (50.0, None)
        assert given["peak_source"] == "given: bf16, memory bandwidth given"
        # Concurrent analyses on their own connections also see them.
        (total,) = trace.results(["gemm_totals", "roofline"])["gemm_totals"].to_dicts()
        assert total["peak_pct"] == 50.0
        # As does SQL, which reads an analysis that another connection creates.
        assert trace.sql("SELECT peak_pct FROM gemms").rows == [(50.0,)]
        step, bound = row_of(trace, "mfu"), row_of(trace, "compute_memory")
        assert (step["mfu_pct"], step["peak_source"]) == (50.0, given["peak_source"])
        assert (bound["ridge_flop_per_byte"], bound["attainable_pct"]) == (250.0, 50.0)
        with pytest.raises(QueryError):
            trace.assume_peaks(bf61=1e15)
        with pytest.raises(QueryError):
            trace.assume_peaks("X9")


def test_options_do_not_change_later_results(cli, product):
    def asked(*options):
        (row,) = cli("query", "gemms", product, "--format", "json", *options).json()
        return dict(row)

    before = asked()
    assert asked("--peak", "bf16=1e15")["peak_pct"] == 50.0
    assert asked() == before
    refused = cli("query", "gemms", product, "--peak", "bf16")
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_a_step_without_the_profiler_has_a_utilization_of_its_own(tiny_trace):
    """Half of the peak for 4 µs: 10 % in a recorded step of 20 µs, and 25 % in a step of 8 µs."""
    events = [
        *(span("user_annotation", "ProfilerStep#1", 0, 14), *GEMM),
        span("user_annotation", "ProfilerStep#2", 20, 34),
        *(event | {"ts": event["ts"] + 20} for event in GEMM[:1]),
        *work(21, 30, 34, 2, "sm90_xmma_gemm_bf16"),
    ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        trace.assume_peaks(bf16=1e15)
        (first, _) = trace.query("mfu").to_dicts()
        trace.assume_unprofiled_step(8_000)
        (of_run, _) = trace.query("mfu").to_dicts()
        (idle,) = trace.query("run_idle").to_dicts()
        with pytest.raises(UsageError):
            trace.assume_unprofiled_step(0)
    assert first["run_mfu_pct"] is None
    assert of_run["mfu_pct"] == first["mfu_pct"]
    assert of_run["mfu_pct"] * of_run["step_ns"] == pytest.approx(200 * 1_000)
    assert of_run["run_mfu_pct"] == 25.0
    assert (idle["unprofiled_step_ns"], idle["source"]) == (8_000, "given")


def test_a_step_is_drawn_recorded_and_without_the_profiler(cli, tmp_path):
    """Work of 100 µs in recorded steps of 970 µs (mean) and unprofiled steps of 500 µs."""
    events = []
    for number in range(3):
        at = 1_000 * number
        events += [
            span("user_annotation", f"ProfilerStep#{number}", at, at + 999),
            span("cpu_op", "aten::linear", at + 100, at + 900),
            *work(at + 800, at + 810, at + 910, number + 1),
        ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    shown = cli("breakdown", path, "--unprofiled-step", "500us", "--no-cache").stdout.splitlines()
    assert shown[2:4] == [
        "Step      500.0 µs unprofiled (given)  ·  mean 999.7 µs while profiling",
        f"GPU busy  0.100 ms   20.0 %  {'█' * 10}{'░' * 40}",
    ]
