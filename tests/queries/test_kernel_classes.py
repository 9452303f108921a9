"""Device time by class of kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from traces_by_hand import kernel as event
from traces_by_hand import span

import tracekit


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path / "cache"))


def test_classes(tiny_trace: Callable[..., Path]) -> None:
    events = [
        event("ampere_sgemm_128x64_tn", 0, 10),
        event("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_tn", 5, 12),
        event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 8, 20),
        event("ncclDevKernel_AllGather_RING_LL", 30, 35),
        event("Memcpy HtoD (Pageable -> Device)", 18, 22),
        event("Memset (Device)", 22, 23),
        event("what is this", 40, 50),
    ]
    with tracekit.open(tiny_trace(events, distributedInfo={"rank": 0})) as trace:
        result = trace.query("kernel_classes")
        assert result.column_names == (
            "rank", "device", "class", "kind", "kernel_count", "kernel_ns", "wall_ns", "wall_pct",
        )  # fmt: skip
        assert result.rows == [
            (0, "0", "gemm", "compute", 2, 17_000, 12_000, 24.0),
            (0, "0", "other", "compute", 1, 10_000, 10_000, 20.0),
            (0, "0", "comm_allreduce", "comm", 1, 12_000, 8_000, 16.0),
            (0, "0", "comm_allgather", "comm", 1, 5_000, 5_000, 10.0),
            (0, "0", "memcpy_h2d", "memcpy", 1, 4_000, 2_000, 4.0),
            (0, "0", "memset", "compute", 1, 1_000, 1_000, 2.0),
        ]


def test_a_window_of_no_length_has_no_shares(tiny_trace: Callable[..., Path]) -> None:
    with tracekit.open(tiny_trace([event("k", 5, 5)])) as trace:
        assert trace.query("kernel_classes").rows == [
            (None, "0", "other", "compute", 1, 0, 0, None)
        ]


def test_an_op_in_pieces_counts_once(tiny_trace: Callable[..., Path]) -> None:
    ops = [span("cpu_op", "aten::mm", 0, 10), span("cpu_op", "aten::add", 4, 5)]
    with tracekit.open(tiny_trace(ops)) as trace:
        assert trace.query("kernel_classes").rows == [
            (None, "cpu", "gemm", "compute", 1, 9_000, 9_000, 90.0),
            (None, "cpu", "elementwise", "compute", 1, 1_000, 1_000, 10.0),
        ]


def test_rules_of_the_user_come_first(tiny_trace: Callable[..., Path], tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nclass = "product"\npattern = "^my_product"\n'
        '[[rule]]\nclass = "ring"\napplies_to = "device"\npattern = "^my_"\n'
        '[class]\nring = {kind = "comm"}\nproduct = {is_gemm = true}\n',
        encoding="utf-8",
    )
    path = tiny_trace(
        [event("my_gemm", 0, 4), event("ampere_sgemm_128x64_tn", 4, 6), event("my_product", 6, 7)]
    )
    with tracekit.open(path, rules=rules) as trace:
        rows = trace.query("kernel_classes").to_dicts()
        assert [(row["class"], row["kind"]) for row in rows] == [
            ("ring", "comm"),
            ("gemm", "compute"),
            ("product", "compute"),
        ]
        assert [row["gemm_kernel_ns"] for row in trace.query("gemm_share").to_dicts()] == [
            3_000,
            3_000,
        ]
        assert trace.query("timeline").column("exposed_comm_ns") == [4_000]


def test_the_op_says_more_than_the_name(tiny_trace: Callable[..., Path]) -> None:
    """Libraries run convolutions and attention by kernels that are called gemm, or anything."""
    launched = [
        ("aten::cudnn_convolution", "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4", 90),
        ("aten::convolution_backward", "void wgrad_alg0_engine_NHWC", 20),
        ("aten::convolution_backward", "sm90_xmma_gemm_f32f32_tf32f32_f32_tn", 30),
        (
            "aten::convolution_backward",
            "void cudnn::bn_bw_1C11_kernel_new<float, float, float2>",
            7,
        ),
        ("aten::_efficient_attention_forward", "cutlass_80_simt_sgemm_32x128_8x5_nn", 40),
        ("aten::addmm", "sm90_xmma_gemm_f32f32_tf32f32_f32_tn", 10),
    ]
    events = []
    for i, (op, name, length) in enumerate(launched):
        at = 100 * i
        events += [
            span("cpu_op", op, at, at + 5),
            span("cuda_runtime", "cudaLaunchKernel", at + 1, at + 2, correlation=i + 1),
            event(name, at + 5, at + 5 + length, correlation=i + 1),
        ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        found = {row["class"]: row for row in trace.query("kernel_classes").to_dicts()}
        shares = {row["phase"]: row for row in trace.query("gemm_share").to_dicts()}
        attributed = trace.sql(
            "SELECT class, sum(dur_ns)::BIGINT FROM attributed_events GROUP BY 1"
        )
    times = {name: row["kernel_ns"] for name, row in found.items()}
    assert times == {"conv": 140_000, "attention": 40_000, "gemm": 10_000, "norm": 7_000}
    assert dict(attributed.rows) == times
    assert shares["(all)"]["gemm_kernel_ns"] == 10_000
