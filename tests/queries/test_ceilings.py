"""Measured ceilings in the analyses: exact shares of rates made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import opened_as_ranks, rows_by_rank
from traces_by_hand import Event, span

import tracekit

MakeBench = Callable[..., Path]
MakeTrace = Callable[..., Path]

BF16 = "c10::BFloat16"
NAME = "NVIDIA H100 80GB HBM3"
H100 = [{"id": 0, "name": NAME, "numSms": 132}]
GPU = {"device": "cuda:0", "device_name": NAME, "unit_count": 132, "thread_count": 8}
CPU = {"device": "cpu", "device_name": "AMD EPYC", "thread_count": 2, "timer": "wall_clock"}

# 64 x 16 x 32 in 10 us are 6.5536e9 operations/s; these points are twice and four times as fast.
MM = {"family": "gemm", "op": "mm", "m": 64, "n": 16, "k": 32, "batch": 1}
TWICE = MM | {"median_ns": 5_000.0}
FOUR_TIMES = MM | {"median_ns": 2_500.0}
RATE = 6.5536e9


@pytest.fixture(scope="module")
def kept_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a cache that the tests share."""
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(autouse=True)
def _own_cache(kept_stores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(kept_stores))


def work(category: str, name: str, start: float, end: float, link: int, **args: Any) -> list[Event]:
    on_device = {"correlation": link, "device": 0, "stream": 7, **args}
    return [
        span("cuda_runtime", "cudaLaunchKernel", start, start + 1, correlation=link),
        span(category, name, start, end, 7, **on_device) | {"pid": 0},
    ]


def product(
    start: float, end: float, link: int, dtype: str = BF16, kernel: str = "sm90_xmma_gemm"
) -> list[Event]:
    shapes = {"Input Dims": [[64, 32], [32, 16]], "Input type": [dtype, dtype]}
    return [
        span("cpu_op", "aten::mm", start, start + 3, **shapes),
        *work("kernel", kernel, start, end, link),
    ]


def on_cpu(start: float, end: float, dtype: str = BF16) -> Event:
    shapes = {"Input Dims": [[64, 32], [32, 16]], "Input type": [dtype, dtype]}
    return span("cpu_op", "aten::mm", start, end, **shapes)


@pytest.fixture(scope="module")
def one_product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace of an H100 with a product of 10 us in bf16."""
    path = tmp_path_factory.mktemp("product") / "trace.json"
    path.write_text(json.dumps({"deviceProperties": H100, "traceEvents": product(0, 10, 1)}))
    return path


@pytest.fixture(scope="module")
def two_products(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace of a CPU with a product of 10 us in bf16 and one of 10 us in fp32."""
    path = tmp_path_factory.mktemp("products") / "trace.json"
    path.write_text(json.dumps({"traceEvents": [on_cpu(0, 10), on_cpu(10, 20, "float")]}))
    return path


def shares(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name.startswith("ceiling_")}


def test_a_product_has_a_share_of_the_data_sheet_and_of_what_was_measured(
    one_product: Path, make_bench: MakeBench
) -> None:
    bench = make_bench("bench", [TWICE | {"dtype": "bf16"}, FOUR_TIMES | {"dtype": "bf16"}], **GPU)
    with tracekit.open(one_product) as trace:
        (before,) = trace.query("gemms").to_dicts()
    with tracekit.open(one_product, ceilings=bench) as trace:
        (row,) = trace.query("gemms").to_dicts()
    assert row["flop_per_s"] == pytest.approx(RATE)
    assert (row["peak_flop_per_s"], row["reason"]) == (989.5e12, None)
    assert shares(row) == {
        "ceiling_flop_per_s": pytest.approx(4 * RATE),
        "ceiling_pct": pytest.approx(25),
        "ceiling_source": "bench, 2026-01-31: mm 64 × 16 × 32",
        "ceiling_reason": None,
    }
    assert shares(before) == {
        "ceiling_flop_per_s": None,
        "ceiling_pct": None,
        "ceiling_source": None,
        "ceiling_reason": "no benchmark for this device",
    }
    assert {**row, **shares(before)} == before


def test_more_than_was_measured_is_shown_as_it_is(one_product: Path, make_bench: MakeBench) -> None:
    """Clocks may have been higher; a share above 100 is no error."""
    slow = MM | {"dtype": "bf16", "median_ns": 20_000.0}
    with tracekit.open(one_product, ceilings=make_bench("b", [slow], **GPU)) as trace:
        (row,) = trace.query("gemms").to_dicts()
    assert row["ceiling_pct"] == pytest.approx(200)


def test_fp32_on_a_tf32_kernel_has_the_ceiling_of_tf32(
    tiny_trace: MakeTrace, make_bench: MakeBench
) -> None:
    bench = make_bench("b", [TWICE | {"dtype": "tf32"}, MM | {"dtype": "fp32"}], **GPU)
    events = [
        *product(0, 10, 1, "float", "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n"),
        *product(20, 30, 2, "float", "ampere_sgemm_128x64_nn"),
    ]
    with tracekit.open(
        tiny_trace(events, deviceProperties=H100), cache=False, ceilings=bench
    ) as trace:
        rows = trace.query("gemms").to_dicts()
    found = {row["peak_type"]: (row["ceiling_pct"], row["ceiling_reason"]) for row in rows}
    assert found == {
        "tf32": (pytest.approx(50), None),
        # The point without a time is none.
        "fp32": (None, "no product of this type was measured on this device"),
    }


def test_a_step_of_a_cpu_has_a_share_of_what_was_measured(
    two_products: Path, make_bench: MakeBench
) -> None:
    """10 us in bf16 at half, 10 us in fp32 at a quarter of the rate measured: 37.5 % of 20 us."""
    bench = make_bench("b", [TWICE | {"dtype": "bf16"}, FOUR_TIMES | {"dtype": "fp32"}], **CPU)
    with tracekit.open(two_products, ceilings=bench) as trace:
        (row,) = trace.query("mfu").to_dicts()
    assert (row["step_ns"], row["flops"], row["mfu_pct"]) == (20_000, 131_072, None)
    assert row["reason"] == "the peak of a CPU is not known"
    assert (row["dtype"], row["ceiling_flop_per_s"]) == ("fp32", pytest.approx(4 * RATE))
    assert row["ceiling_mfu_pct"] == pytest.approx(37.5)
    assert row["ceiling_hfu_pct"] == pytest.approx(37.5)
    assert (row["ceiling_source"], row["ceiling_reason"]) == (
        "b, 2026-01-31: mm 64 × 16 × 32",
        None,
    )


def test_a_step_is_refused_where_one_of_its_types_was_not_measured(
    two_products: Path, make_bench: MakeBench
) -> None:
    bench = make_bench("b", [TWICE | {"dtype": "bf16"}], **CPU)
    with tracekit.open(two_products, ceilings=bench) as trace:
        (row,) = trace.query("mfu").to_dicts()
    # fp32 is the type of the row: the rate of the other one is none of it.
    assert (row["dtype"], row["ceiling_flop_per_s"], row["ceiling_mfu_pct"]) == ("fp32", None, None)
    assert row["ceiling_reason"] == "products of one of the types were not measured on this device"


def test_the_parameters_of_a_run_tell_where_shapes_do_not(
    make_run: Callable[..., Path], tiny_trace: MakeTrace, make_bench: MakeBench
) -> None:
    """6 x 1000 parameters x 10 tokens in a step of 10 us are 6e9 operations/s."""
    folder = make_run(
        "run",
        model={"name": "m", "parameter_count": 1000, "trainable_parameter_count": 1000},
        batch_size=1,
        sequence_length=10,
        precision="bf16",
        environment={"processor": "AMD EPYC", "thread_count": 2},
    )
    step = span("user_annotation", "ProfilerStep#1", 0, 10)
    tiny_trace([step, span("cpu_op", "aten::mm", 0, 10)], "run/rank0.json")
    fast = MM | {"dtype": "bf16", "m": 1000, "n": 12, "k": 1, "median_ns": 1000.0}
    bench = make_bench("b", [fast], **CPU)
    with tracekit.open(folder, ceilings=bench) as trace:
        (row,) = [row for row in trace.query("mfu").to_dicts() if row["step"] == 1]
    assert (row["source"], row["flops"], row["mfu_pct"]) == ("parameters", 60_000, None)
    assert row["ceiling_mfu_pct"] == pytest.approx(100 * 6e9 / 24e9)
    assert (row["ceiling_hfu_pct"], row["ceiling_reason"]) == (None, None)
    with tracekit.open(
        folder, ceilings=make_bench("c", [TWICE | {"dtype": "fp32"}], **CPU)
    ) as trace:
        (row,) = [row for row in trace.query("mfu").to_dicts() if row["step"] == 1]
    assert row["ceiling_mfu_pct"] is None
    assert row["ceiling_reason"] == "products of that type were not measured on this device"


def test_the_measured_roofline_has_a_bound_of_its_own(
    one_product: Path, make_bench: MakeBench
) -> None:
    """65,536 operations and 7,168 bytes: 9.14 a byte, between the two ridges."""
    copy = {"family": "memcpy", "op": "d2d", "message_bytes": 2**28}
    # Read and written in 2**28 ns: 2e9 bytes/s. The smaller copy is in a cache, and faster.
    points = [
        TWICE | {"dtype": "bf16"},
        copy | {"median_ns": float(2**28)},
        copy | {"message_bytes": 2**20, "median_ns": 1000.0},
    ]
    with tracekit.open(one_product, ceilings=make_bench("b", points, **GPU)) as trace:
        (row,) = trace.query("compute_memory").to_dicts()
    assert (row["flops"], row["bytes"], row["bound"]) == (65_536, 7_168, "memory")
    assert row["ceiling_flop_per_s"] == pytest.approx(2 * RATE)
    assert row["ceiling_memory_bytes_per_s"] == pytest.approx(2e9)
    assert row["ceiling_ridge_flop_per_byte"] == pytest.approx(6.5536)
    assert row["ceiling_bound"] == "compute"
    # Half of the operations; of the bytes 7,168 in 10 us are 36 % of the memory's.
    assert row["ceiling_attainable_pct"] == pytest.approx(50)
    assert row["ceiling_source"] == (
        "b, 2026-01-31: mm 64 × 16 × 32; b, 2026-01-31: d2d, 268,435,456 bytes"
    )
    with tracekit.open(one_product, ceilings=make_bench("c", points[::2], **GPU)) as trace:
        (row,) = trace.query("compute_memory").to_dicts()
    assert (row["ceiling_bound"], row["ceiling_attainable_pct"]) == (None, None)
    assert row["ceiling_reason"] == "the rate of its memory was not measured"


COPIES: list[tuple[str, str, float | None, str | None]] = [
    ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 25, None),
    ("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", 50, None),
    ("Memcpy DtoD (Device -> Device)", "gpu_memcpy", 10, None),
    (
        "Memcpy DtoH (Device -> Pinned)",
        "gpu_memcpy",
        None,
        "no copy of this kind was measured on this device",
    ),
    (
        "Memcpy HtoD (Host -> Device)",
        "gpu_memcpy",
        None,
        "its name does not tell whether the memory of the host is pinned",
    ),
    (
        "Memcpy PtoP (Device -> Device)",
        "gpu_memcpy",
        None,
        "copies between two devices are not measured",
    ),
    ("Memset (Device)", "gpu_memset", None, "it copies nothing"),
]


def test_a_copy_is_held_against_its_direction_and_memory(
    tmp_path: Path, make_bench: MakeBench
) -> None:
    """1,000 bytes in 10 us are 1e8 bytes/s."""
    copy = {"family": "memcpy", "op": "h2d", "message_bytes": 4000, "median_ns": 10_000.0}
    points = [
        copy | {"memory": "pinned"},
        copy | {"memory": "pinned", "message_bytes": 1000},
        copy | {"memory": "pageable", "message_bytes": 2000},
        copy | {"op": "d2d", "message_bytes": 10_000},
    ]
    cases = [work(category, name, 0, 10, 1, bytes=1000) for name, category, *_ in COPIES]
    bench = make_bench("b", points, **GPU)
    with opened_as_ranks(tmp_path, cases, ceilings=bench, deviceProperties=H100) as trace:
        rows = rows_by_rank(trace, "memcpy")
    for rank, (name, _, share, reason) in enumerate(COPIES):
        (row,) = rows[rank]
        assert row["bandwidth_bytes_per_s"] == pytest.approx(1e8), name
        assert row["ceiling_pct"] == (share and pytest.approx(share)), name
        assert row["ceiling_reason"] == reason, name
        assert (row["ceiling_source"] is None) == (share is None), name


COLLECTIVES: list[tuple[str, str, int, float | None, str | None]] = [
    ("allreduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 4, 30, None),
    (
        "allreduce",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)",
        8,
        None,
        "it was not measured with nccl in a group of 8",
    ),
    (
        "broadcast",
        "ncclDevKernel_Broadcast_RING_LL(x)",
        4,
        None,
        "it was not measured with nccl in a group of 4",
    ),
    ("reduce", "ncclDevKernel_Reduce_Sum_bf16_RING_LL(x)", 4, 50, None),
    (
        "gather",
        "ncclDevKernel_SendRecv(x)",
        4,
        None,
        "such collectives are not measured",
    ),
    (
        "allreduce",
        "void vllm::cross_device_reduce_1stage<x>(y)",
        4,
        None,
        "neither NCCL nor gloo ran it, as far as names tell",
    ),
]
"""Collective, kernel, size of the group; the share, or the reason why there is none."""


@pytest.fixture(scope="module")
def kept() -> dict[int, list[dict[str, Any]]]:
    """Return what is found by the first test that looks, for the others."""
    return {}


@pytest.fixture
def collectives(
    kept: dict[int, list[dict[str, Any]]], tmp_path: Path, make_bench: MakeBench
) -> dict[int, list[dict[str, Any]]]:
    """Return the rows of analysis communication by the number of the case."""
    if kept:
        return kept
    point = {"family": "collective", "backend": "nccl", "group_size": 4, "median_ns": 10_000.0}
    points = [
        # On the bus 1e9 bytes/s; in a small message it was slower.
        point | {"op": "all_reduce", "message_bytes": 6667, "median_ns": 10_000.5},
        point | {"op": "all_reduce", "message_bytes": 100},
        point | {"op": "all_reduce", "message_bytes": 100_000, "backend": "gloo"},
        point | {"op": "all_reduce", "message_bytes": 100_000, "group_size": 2},
        point | {"op": "reduce", "message_bytes": 4000},
        # Of no op that reduces: it is no ceiling of one that does.
        point | {"op": "gather", "message_bytes": 40_000},
    ]
    cases = []
    for collective, kernel, size, _, _ in COLLECTIVES:
        arguments = {
            "Collective name": collective,
            "In msg nelems": 1000,
            "Out msg nelems": 1000,
            "Group size": size,
            "dtype": "BFloat16",
            "Process Group Name": "7",
        }
        cases.append(work("kernel", kernel, 0, 10, 1, **arguments))
    bench = make_bench("b", points, **GPU)
    with opened_as_ranks(tmp_path, cases, ceilings=bench, deviceProperties=H100) as trace:
        kept |= rows_by_rank(trace, "communication")
    return kept


@pytest.mark.parametrize("case", range(len(COLLECTIVES)))
def test_a_collective_is_held_against_the_same_in_a_group_of_its_size(
    collectives: dict[int, list[dict[str, Any]]], case: int
) -> None:
    """2,000 bytes in 10 us are 2e8 bytes/s, all-reduced by 4 ranks 3e8 bytes/s on the bus."""
    *_, share, reason = COLLECTIVES[case]
    (row,) = collectives[case]
    assert row["message_bytes"] == 2000
    assert row["ceiling_pct"] == (share and pytest.approx(share))
    assert row["ceiling_reason"] == reason


def test_the_table_is_empty_where_nothing_is_known(tiny_trace: MakeTrace) -> None:
    with tracekit.open(tiny_trace(product(0, 10, 1)), cache=False) as trace:
        assert trace.sql("FROM device_ceiling").rows == []
        assert trace.connection.execute("FROM device_ceiling").fetchall() == []


def test_a_breakdown_has_the_shares_too(tiny_trace: MakeTrace, make_bench: MakeBench) -> None:
    copy = {"family": "memcpy", "op": "d2d", "message_bytes": 2000, "median_ns": 10_000.0}
    events = work("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 0, 10, 1, bytes=1000)
    path = tiny_trace(events, deviceProperties=H100)
    bench = make_bench("b", [copy], **GPU)
    for _ in range(2):
        with tracekit.open(path, ceilings=bench) as trace:
            (row,) = trace.breakdown()["memcpy"].to_dicts()
            assert row["ceiling_pct"] == pytest.approx(50)
    # Nothing of it is kept with the store.
    with tracekit.open(path) as trace:
        (row,) = trace.breakdown()["memcpy"].to_dicts()
        assert row["ceiling_pct"] is None
