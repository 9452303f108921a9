"""Results made by hand, so that what is drawn can be compared to the letter."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from given_rows import analysis_of, rows_of

from tracekit.analysis.breakdown import TOTALS
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.result import Column, Result
from tracekit.render import renderer

Make = Callable[..., Result]


def make(name: str, columns: Mapping[str, str], *rows: tuple[Any, ...]) -> Result:
    return Result(name, tuple(Column(*column) for column in columns.items()), list(rows))


def with_totals(data: Mapping[str, Result]) -> dict[str, Result]:
    """The analyses of a breakdown with what reduces them, as a breakdown has them.

    Columns that a result does not have are NULL; without a timeline, it has no rows.
    """

    def whole(name: str) -> Result:
        names = load_catalog().analysis(name).column_names
        rows = data[name].to_dicts() if name in data else []
        return rows_of(name, *({one: row.get(one) for one in names} for row in rows))

    specs = [load_catalog().analysis(TOTALS[name]) for name in data if name in TOTALS]
    required = {one.removesuffix("()") for spec in specs for one in spec.requires}
    known = [whole(name) for name in required if name in load_catalog().analyses]
    return {**data, **{spec.name: analysis_of(spec.name, *known) for spec in specs}}


@pytest.fixture
def totalled() -> Callable[[Mapping[str, Result]], dict[str, Result]]:
    """Return a function that adds to results what reduces them, by the SQL that does so."""
    return with_totals


@pytest.fixture
def make_result() -> Make:
    """Return a function that takes a name, columns (name to type) and rows."""
    return make


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def render(data: Any, format_name: str, *, width: int = 100, **settings: Any) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        stream = io.StringIO()
        renderer(format_name)(data, stream, **settings)
        return stream.getvalue()

    return render


TRACE = {
    "rank": "INTEGER",
    "rank_source": "VARCHAR",
    "file": "VARCHAR",
    "world_size": "INTEGER",
    "accelerator": "VARCHAR",
    "devices": "VARCHAR[]",
    "file_bytes": "BIGINT",
    "text_bytes": "BIGINT",
    "event_count": "BIGINT",
    "complete_count": "BIGINT",
    "device_event_count": "BIGINT",
    "rejected_count": "BIGINT",
    "repaired_count": "BIGINT",
    "is_truncated": "BOOLEAN",
    "window_ns": "BIGINT",
}
TIMELINE = {
    "rank": "INTEGER",
    "device": "VARCHAR",
    "window_ns": "BIGINT",
    "compute_ns": "BIGINT",
    "exposed_comm_ns": "BIGINT",
    "exposed_memcpy_ns": "BIGINT",
    "idle_ns": "BIGINT",
    "busy_ns": "BIGINT",
    "comm_ns": "BIGINT",
    "memcpy_ns": "BIGINT",
    "overlapped_comm_pct": "DOUBLE",
    "event_count": "BIGINT",
    "compute_pct": "DOUBLE",
    "exposed_comm_pct": "DOUBLE",
    "exposed_memcpy_pct": "DOUBLE",
    "idle_pct": "DOUBLE",
}
CLASSES = {
    "rank": "INTEGER",
    "device": "VARCHAR",
    "class": "VARCHAR",
    "kind": "VARCHAR",
    "kernel_count": "BIGINT",
    "kernel_ns": "BIGINT",
    "wall_ns": "BIGINT",
    "wall_pct": "DOUBLE",
}
KERNELS = {
    "rank": "INTEGER",
    "device": "VARCHAR",
    "name": "VARCHAR",
    "class": "VARCHAR",
    "kernel_count": "BIGINT",
    "kernel_ns": "BIGINT",
    "mean_ns": "DOUBLE",
    "min_ns": "BIGINT",
    "max_ns": "BIGINT",
    "std_ns": "DOUBLE",
    "wall_ns": "BIGINT",
    "wall_pct": "DOUBLE",
}
STEPS = {
    "rank": "INTEGER",
    "device": "VARCHAR",
    "step": "BIGINT",
    "start_ns": "BIGINT",
    "dur_ns": "BIGINT",
    "span_ns": "BIGINT",
    "kernel_count": "BIGINT",
    "kernel_ns": "BIGINT",
    "wall_ns": "BIGINT",
}
MEMCPY = {
    "rank": "INTEGER",
    "device": "VARCHAR",
    "direction": "VARCHAR",
    "name": "VARCHAR",
    "copy_count": "BIGINT",
    "kernel_ns": "BIGINT",
    "wall_ns": "BIGINT",
    "bytes": "BIGINT",
    "sized_count": "BIGINT",
    "bandwidth_bytes_per_s": "DOUBLE",
    "sized_ns": "BIGINT",
}
HEALTH = {
    "rank": "INTEGER",
    "metric": "VARCHAR",
    "value": "DOUBLE",
    "unit": "VARCHAR",
    "severity": "VARCHAR",
    "meaning": "VARCHAR",
}

MS = 1_000_000


def trace_row(rank: int | None, **changes: Any) -> tuple[Any, ...]:
    row = {
        "rank": rank,
        "rank_source": "distributedInfo",
        "file": f"/runs/llama/rank{rank}.json.gz",
        "world_size": 8,
        "accelerator": "cuda",
        "devices": [f"{rank} NVIDIA H800"],
        "file_bytes": 1_250_000,
        "text_bytes": 12_500_000,
        "event_count": 14_240,
        "complete_count": 9_306,
        "device_event_count": 983,
        "rejected_count": 0,
        "repaired_count": 0,
        "is_truncated": False,
        "window_ns": 129_749_000,
    }
    return tuple((row | changes).values())


def timeline_row(rank: int | None, device: str = "0") -> tuple[Any, ...]:
    return (
        rank,
        device,
        200 * MS,
        100 * MS,
        60 * MS,
        20 * MS,
        20 * MS,
        180 * MS,
        80 * MS,
        25 * MS,
        25.0,
        983,
        50.0,
        30.0,
        10.0,
        10.0,
    )


@pytest.fixture
def breakdown() -> dict[str, Result]:
    """Return the breakdown of one rank with everything in it."""
    classes = [
        ("gemm", "compute", 219, 60),
        ("comm_allreduce", "comm", 36, 60),
        ("attention", "compute", 24, 20),
        ("memcpy_h2d", "memcpy", 8, 20),
        ("norm", "compute", 16, 10),
        ("elementwise", "compute", 400, 6),
        ("optimizer", "compute", 12, 2),
        ("layout", "compute", 30, 1),
        ("softmax", "compute", 4, 0.9),
        ("memset", "compute", 4, 0.1),
    ]
    kernels = [
        ("void cutlass::device_kernel<GemmUniversal<cute::tuple<int, int, int, int>>>(Params)", 60),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 60),
        ("flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)", 20),
        ("Memcpy HtoD (Pageable -> Device)", 20),
        ("rms_norm_kernel", 10),
        ("vectorized_elementwise_kernel", 6),
    ]
    data = {
        "trace": make("trace", TRACE, trace_row(0)),
        "timeline": make("timeline", TIMELINE, timeline_row(0)),
        "kernel_classes": make(
            "kernel_classes",
            CLASSES,
            *(
                (0, "0", name, kind, count, int(ms * MS), int(ms * MS), ms / 2)
                for name, kind, count, ms in classes
            ),
        ),
        "kernels": make(
            "kernels",
            KERNELS,
            *(
                (0, "0", name, "x", 8, ms * MS, ms * MS / 8, MS, 9 * MS, None, ms * MS, ms / 2)
                for name, ms in kernels
            ),
        ),
        "steps": make(
            "steps",
            STEPS,
            (0, "0", 1, 0, 90 * MS, 98 * MS, 480, 90 * MS, 90 * MS),
            (0, "0", 2, 98 * MS, 90 * MS, 101 * MS, 480, 81 * MS, 81 * MS),
            (0, "0", None, None, None, None, 23, 9 * MS, 9 * MS),
        ),
        "memcpy": make(
            "memcpy",
            MEMCPY,
            (0, "0", "memcpy_h2d", "pageable", 6, 20 * MS, 18 * MS, 400_000_000, 6, 2e10, 20 * MS),
            (0, "0", "memcpy_h2d", "pinned", 2, 4 * MS, 2 * MS, 200_000_000, 2, 5e10, 4 * MS),
            (0, "0", "memcpy_d2h", "pinned", 4, 1 * MS, 1 * MS, None, 0, None, None),
            (0, "0", "memset", "Memset", 4, 100_000, 100_000, 4_096, 2, 8.192e7, 50_000),
        ),
        "health": make(
            "health",
            HEALTH,
            (0, "rejected", 0.0, "count", "ok", "pieces that could not be read"),
            (0, "device_time_linked", 69.8956, "pct", "note", "device time with its launch"),
            (0, "truncated", 1.0, "count", "warn", "the file is cut off"),
            (0, "profiler_overhead", 4186000.0, "ns", "note", "time of the profiler itself"),
        ),
    }
    return with_totals(data)


@pytest.fixture
def run_of() -> Callable[[int], dict[str, Result]]:
    """Return a function that gives the trace and timeline of so many ranks."""

    def build(ranks: int) -> dict[str, Result]:
        data = {
            "trace": make(
                "trace", TRACE, *(trace_row(rank, world_size=ranks) for rank in range(ranks))
            ),
            "timeline": make("timeline", TIMELINE, *map(timeline_row, range(ranks))),
            "kernel_classes": make(
                "kernel_classes",
                CLASSES,
                *(
                    (rank, "0", "gemm", "compute", 10, 50 * MS, 50 * MS, 25.0)
                    for rank in range(ranks)
                ),
            ),
            "kernels": make(
                "kernels",
                KERNELS,
                *(
                    (rank, "0", "gemm_kernel", "gemm", 10, ms, ms / 10, 1, ms, None, ms, 25.0)
                    for rank in range(ranks)
                    for ms in [(50 + rank) * MS]
                ),
            ),
            "steps": make(
                "steps",
                STEPS,
                *(
                    (rank, "0", step, step * 100 * MS, MS, (100 + rank) * MS, 1, MS, MS)
                    for rank in range(ranks)
                    for step in range(2)
                ),
            ),
            "health": make(
                "health",
                HEALTH,
                *((rank, "rank_unknown", 1.0, "count", "note", "x") for rank in range(ranks)),
            ),
        }
        return with_totals(data)

    return build
