"""Exact figures of public traces, computed independently: by expected.json, and in the open here.

Each test also says what the well-known tools make of the same file, where they differ.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit

FOLDER = Path(
    os.environ.get("TRACEKIT_PUBLIC_TRACES")
    or Path(__file__).resolve().parents[2] / "shared" / "traces"
)
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.json.gz"))
Opened = Callable[[Path], tracekit.Trace]

on_every_trace = pytest.mark.parametrize(
    "file",
    FILES or [pytest.param("", marks=pytest.mark.skip(reason=f"no public traces in {FOLDER}"))],
    ids=[name.removesuffix(".json.gz") for name in FILES] or ["none"],
)


def only_row(trace: tracekit.Trace, analysis: str) -> dict[str, Any]:
    (row,) = trace.query(analysis).to_dicts()
    return row


def test_there_is_a_figure_for_every_trace(expected: dict[str, Any]) -> None:
    assert sorted(expected) == FILES


@on_every_trace
def test_events_by_category(
    opened: Opened, public_traces: Path, expected: dict[str, Any], file: str
) -> None:
    figures = expected[file]
    trace = opened(public_traces / file)
    counted = trace.sql("SELECT category, count(*) FROM event GROUP BY category").rows
    assert dict(counted) == figures["complete_by_cat"]
    assert trace.sql(
        "SELECT event_count, complete_count, rejected_count, repaired_count, is_truncated "
        "FROM trace"
    ).rows == [(figures["events"], sum(figures["complete_by_cat"].values()), 0, 0, False)]
    tables = ("event", "flow", "instant", "counter", "memory", "metadata")
    together = " + ".join(f"(SELECT count(*) FROM {table})" for table in tables)
    assert trace.sql(f"SELECT {together}").rows == [(figures["events"],)]


@on_every_trace
def test_device_events(
    opened: Opened, public_traces: Path, expected: dict[str, Any], file: str
) -> None:
    figures = expected[file]
    trace = opened(public_traces / file)
    counted = trace.sql(
        "SELECT count(*), coalesce(sum(dur_ns), 0)::BIGINT FROM device_events WHERE device <> 'cpu'"
    ).rows
    assert counted == [(figures["device_events"], figures["device_time_sum_ns"])]


@on_every_trace
def test_timeline(opened: Opened, public_traces: Path, expected: dict[str, Any], file: str) -> None:
    right = expected[file]["timeline_ns"]
    rows = opened(public_traces / file).query("timeline").to_dicts()
    if right is None:
        # No accelerator in the file: the CPU is the device.
        assert {row["device"] for row in rows} <= {"cpu"}
        return
    (row,) = rows
    assert row["event_count"] == expected[file]["device_events"]
    assert {
        "total": row["window_ns"],
        "compute": row["compute_ns"],
        "exposed_comm": row["exposed_comm_ns"],
        "exposed_memcpy": row["exposed_memcpy_ns"],
        "idle": row["idle_ns"],
        "busy": row["busy_ns"],
        "comm": row["comm_ns"],
        "memcpy": row["memcpy_ns"],
    } == right


@on_every_trace
def test_little_time_is_unclassified(opened: Opened, public_traces: Path, file: str) -> None:
    trace = opened(public_traces / file)
    ((total_ns, other_ns),) = trace.sql(
        "SELECT coalesce(sum(dur_ns), 0), coalesce(sum(dur_ns) FILTER (class = 'other'), 0) "
        "FROM device_events"
    ).rows
    assert other_ns <= 0.01 * total_ns


def test_the_eight_ranks_of_a_run(
    opened: Opened, public_traces: Path, expected: dict[str, Any]
) -> None:
    """A folder of ranks is one run: each rank by itself, in order."""
    trace = opened(public_traces / "param_dlrm_8ranks")
    rows = trace.query("timeline").to_dicts()
    names = sorted(name for name in expected if name.startswith("param_dlrm_8ranks/"))
    assert [row["rank"] for row in rows] == list(range(8))
    for row, name in zip(rows, names, strict=True):
        right = expected[name]["timeline_ns"]
        assert (row["idle_ns"], row["comm_ns"], row["window_ns"]) == (
            right["idle"],
            right["comm"],
            right["total"],
        )


# -- the reference figures, one by one -------------------------------------------------------------


def reference(opened: Opened, public_traces: Path, name: str) -> dict[str, Any]:
    return only_row(opened(public_traces / f"{name}.json.gz"), "timeline")


def test_deepseek_train_h800(opened: Opened, public_traces: Path) -> None:
    # Kernels of DeepEP: HTA and TraceLens find no communication at all.
    row = reference(opened, public_traces, "deepseek_train_h800")
    assert (row["comm_ns"], row["exposed_comm_ns"], row["window_ns"]) == (
        113_440_000,
        4_186_000,
        129_012_000,
    )
    assert row["overlapped_comm_pct"] == pytest.approx(96.3099, abs=1e-4)


def test_hta_resnet_v100_ns(opened: Opened, public_traces: Path) -> None:
    # HTA drops the last step (4,876 events) and rounds to µs: 57 % too much idle.
    row = reference(opened, public_traces, "hta_resnet_v100_ns")
    assert (row["event_count"], row["idle_ns"]) == (6_095, 7_574_738)


def test_hta_a100_cudagraph(opened: Opened, public_traces: Path) -> None:
    # TraceLens leaves out what has no launch: 6,875 events, 69.0 % idle.
    row = reference(opened, public_traces, "hta_a100_cudagraph")
    assert row["event_count"] == 7_747
    assert round(100 * row["idle_ns"] / row["window_ns"], 1) == 64.4


def test_tl_h100_qwen(opened: Opened, public_traces: Path) -> None:
    # HTA fails an assertion; TraceLens sees 1,198 events in 34.9 ms.
    row = reference(opened, public_traces, "tl_h100_qwen")
    assert (row["event_count"], row["window_ns"]) == (1_707, 49_652_832)


def test_tl_mi300_resnet_ddp_recompute(opened: Opened, public_traces: Path) -> None:
    # TraceLens sees 2,604 events and 35.3 ms of exposed communication.
    row = reference(opened, public_traces, "tl_mi300_resnet_ddp_recompute")
    assert (row["event_count"], row["exposed_comm_ns"]) == (3_653, 55_371_257)


def test_hta_sampled_rank0_noflows(opened: Opened, public_traces: Path) -> None:
    # No arrows in the file: TraceLens says «No GPU events found».
    row = reference(opened, public_traces, "hta_sampled_rank0_noflows")
    assert (row["rank"], row["event_count"]) == (0, 1_204)


def test_hta_alexnet_cudasync(opened: Opened, public_traces: Path) -> None:
    # HTA counts the waits of cuda_sync as work: 12,929.684 ms.
    row = reference(opened, public_traces, "hta_alexnet_cudasync")
    assert row["idle_ns"] == 12_854_103_000
