"""Hand-written results, so that the output can be compared exactly."""

import io

import pytest
from given_rows import analysis_of, rows_of

from tracekit.analysis.breakdown import TOTALS
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.library import reads
from tracekit.analysis.result import Column, Result
from tracekit.render import renderer


def make(name, columns, *rows):
    return Result(name, tuple(Column(*column) for column in columns.items()), list(rows))


def with_totals(data):
    """Add the totals that a breakdown computes from the given analyses."""
    specs = [load_catalog().analysis(TOTALS[name]) for name in data if name in TOTALS]
    required = {one.removesuffix("()") for spec in specs for one in reads(spec.name)}
    known = [
        rows_of(name, *(data[name].to_dicts() if name in data else []))
        for name in required
        if name in load_catalog().analyses
    ]
    return {**data, **{spec.name: analysis_of(spec.name, *known) for spec in specs}}


@pytest.fixture
def totalled():
    """Return a function that adds to results what reduces them, by the SQL that does so."""
    return with_totals


@pytest.fixture
def make_result():
    """Return a function that takes a name, columns (name to type) and rows."""
    return make


@pytest.fixture
def rendered(monkeypatch):
    def render(data, format_name, *, width=100, **settings):
        monkeypatch.setenv("COLUMNS", str(width))
        stream = io.StringIO()
        renderer(format_name)(data, stream, **settings)
        return stream.getvalue()

    return render


MS = 1_000_000


def trace_row(rank, **changes):
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
    return row | changes


def timeline_row(rank):
    times_ms = {"window": 200, "compute": 100, "exposed_comm": 60, "exposed_memcpy": 20}
    times_ms |= {"idle": 20, "busy": 180, "comm": 80, "memcpy": 25}
    shares = {"compute": 50.0, "exposed_comm": 30.0, "exposed_memcpy": 10.0, "idle": 10.0}
    return {
        "rank": rank,
        "device": "0",
        **{f"{name}_ns": ms * MS for name, ms in times_ms.items()},
        **{f"{name}_pct": share for name, share in shares.items()},
        "overlapped_comm_pct": 25.0,
        "event_count": 983,
    }


def table(name, columns, /, *rows, **same):
    """Return the rows of an analysis; `columns` names the values, other columns are NULL."""
    names = columns.split()
    return rows_of(name, *(same | dict(zip(names, row, strict=True)) for row in rows))


DEVICE = {"rank": 0, "device": "0"}


@pytest.fixture
def breakdown():
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
    results = [
        rows_of("trace", trace_row(0)),
        rows_of("timeline", timeline_row(0)),
        table(
            "kernel_classes",
            "class kind kernel_count kernel_ns wall_ns wall_pct",
            *((*one, int(ms * MS), int(ms * MS), ms / 2) for *one, ms in classes),
            **DEVICE,
        ),
        table(
            "kernels",
            "name kernel_ns mean_ns min_ns max_ns wall_ns wall_pct",
            *((name, ms * MS, ms * MS / 8, MS, 9 * MS, ms * MS, ms / 2) for name, ms in kernels),
            **DEVICE,
            kernel_count=8,
            **{"class": "x"},
        ),
        table(
            "steps",
            "step start_ns dur_ns span_ns kernel_count kernel_ns wall_ns",
            (1, 0, 90 * MS, 98 * MS, 480, 90 * MS, 90 * MS),
            (2, 98 * MS, 90 * MS, 101 * MS, 480, 81 * MS, 81 * MS),
            (None, None, None, None, 23, 9 * MS, 9 * MS),
            **DEVICE,
        ),
        table(
            "memcpy",
            "direction name copy_count kernel_ns wall_ns bytes sized_count "
            "bandwidth_bytes_per_s sized_ns",
            ("memcpy_h2d", "pageable", 6, 20 * MS, 18 * MS, 400_000_000, 6, 2e10, 20 * MS),
            ("memcpy_h2d", "pinned", 2, 4 * MS, 2 * MS, 200_000_000, 2, 5e10, 4 * MS),
            ("memcpy_d2h", "pinned", 4, 1 * MS, 1 * MS, None, 0, None, None),
            ("memset", "Memset", 4, 100_000, 100_000, 4_096, 2, 8.192e7, 50_000),
            **DEVICE,
        ),
        table(
            "health",
            "metric value unit severity meaning",
            ("rejected", 0.0, "count", "ok", "pieces that could not be read"),
            ("device_time_linked", 69.8956, "pct", "note", "device time with its launch"),
            ("truncated", 1.0, "count", "warn", "the file is cut off"),
            ("profiler_overhead", 4186000.0, "ns", "note", "time of the profiler itself"),
            rank=0,
        ),
    ]
    return with_totals({result.name: result for result in results})


@pytest.fixture
def run_of():
    """Return a function that returns the trace and timeline of a number of ranks."""

    def build(count):
        ranks = range(count)
        results = [
            rows_of("trace", *(trace_row(rank, world_size=count) for rank in ranks)),
            rows_of("timeline", *map(timeline_row, ranks)),
            table(
                "kernel_classes",
                "rank kernel_ns wall_ns",
                *((rank, 50 * MS, 50 * MS) for rank in ranks),
                **{"device": "0", "class": "gemm", "kind": "compute"},
                kernel_count=10,
                wall_pct=25.0,
            ),
            table(
                "kernels",
                "rank kernel_ns mean_ns wall_ns",
                *((rank, ms * MS, ms * MS / 10, ms * MS) for rank in ranks for ms in [50 + rank]),
                **{"device": "0", "name": "gemm_kernel", "class": "gemm"},
                kernel_count=10,
                wall_pct=25.0,
            ),
            table(
                "steps",
                "rank step start_ns span_ns",
                *((r, step, step * 100 * MS, (100 + r) * MS) for r in ranks for step in range(2)),
                device="0",
                kernel_count=1,
                **dict.fromkeys(("dur_ns", "kernel_ns", "wall_ns"), MS),
            ),
            table(
                "health",
                "rank metric value unit severity meaning",
                *((rank, "rank_unknown", 1.0, "count", "note", "x") for rank in ranks),
            ),
        ]
        return with_totals({result.name: result for result in results})

    return build
