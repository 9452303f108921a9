"""Results of a trace made by hand, and hand-written ones."""

import io
from pathlib import Path

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
REPO = Path(__file__).resolve().parents[2]


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


@pytest.fixture
def breakdown(opened):
    """Return the breakdown of a step made by hand, with one rank."""
    return {**opened(REPO / "docs" / "samples" / "made_up_step.json").breakdown()}


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
