"""Figures are equal to HTA's where HTA is correct. Otherwise, tests state the reason.

    TRACEKIT_PUBLIC_TRACES=FOLDER PYTHON -m pytest evaluations/hta

PYTHON has the extra `hta`, which is incompatible with the newest pandas. HTA's times are doubles in
microseconds, exact to some nanoseconds, and are compared with this precision.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tracekit

Opened = Callable[[Path], tracekit.Trace]
Hta = dict[str, dict[str, Any]]

# Traces in which HTA sees exactly all device events.
WHOLE = ("tl_h100_owlv2_large", "hta_mi250_toy_train", "tl_mi300_vllm_piecewise")
# Communication kernels with names that HTA recognizes; integer microseconds.
DLRM = "param_dlrm_8ranks"
NOT_RIGHT = ("hta_resnet_v100_ns", "hta_alexnet_cudasync", "deepseek_train_h800")

_LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")


def ranks(folder: Path) -> list[Path]:
    return sorted((folder / DLRM).glob("*.json.gz"))


def whole(folder: Path) -> list[Path]:
    return [*(folder / f"{name}.json.gz" for name in WHOLE), *ranks(folder)]


@pytest.fixture(scope="module")
def public_traces() -> Path:
    return Path(os.environ["TRACEKIT_PUBLIC_TRACES"])


@pytest.fixture(scope="module")
def opened() -> Opened:
    return cache(tracekit.open)


@pytest.fixture(scope="module")
def hta(public_traces: Path) -> Hta:
    paths = [*whole(public_traces), *(public_traces / f"{name}.json.gz" for name in NOT_RIGHT)]
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("_hta_figures.py"), *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    figures: Hta = json.loads(done.stdout)
    return figures


def has_events_before_the_window(trace: tracekit.Trace) -> bool:
    return bool(trace.sql("SELECT 1 FROM attribution WHERE link = 'before_window'").rows)


def us(amount_ns: int) -> Any:
    """Return microseconds that equal HTA's to the precision of its doubles."""
    return pytest.approx(amount_ns / 1000, rel=1e-9, abs=0.5)


def test_temporal_breakdown(public_traces: Path, opened: Opened, hta: Hta) -> None:
    for path in whole(public_traces):
        (ours,) = opened(path).query("timeline").to_dicts()
        theirs = hta[path.name]["temporal"]
        assert hta[path.name]["event_count"] == ours["event_count"], path.name
        assert theirs["kernel_time(us)"] == us(ours["window_ns"]), path.name
        assert theirs["idle_time(us)"] == us(ours["idle_ns"]), path.name


def test_compute_time(public_traces: Path, opened: Opened, hta: Hta) -> None:
    # HTA counts memsets as copies, and tracekit as compute. With one stream, only this differs.
    for name in WHOLE:
        trace = opened(public_traces / f"{name}.json.gz")
        (ours,) = trace.query("timeline").to_dicts()
        memset_ns = sum(
            row["wall_ns"]
            for row in trace.query("kernel_classes").to_dicts()
            if row["class"] == "memset"
        )
        theirs = hta[f"{name}.json.gz"]["temporal"]
        assert theirs["compute_time(us)"] == us(ours["compute_ns"] - memset_ns), name


def test_overlap_and_kernel_breakdown(public_traces: Path, opened: Opened, hta: Hta) -> None:
    for path in ranks(public_traces):
        trace = opened(path)
        (ours,) = trace.query("timeline").to_dicts()
        theirs = hta[path.name]
        types = theirs["kernel_types"]
        overlap = types.get("COMPUTATION overlapping COMMUNICATION", 0)
        memset_ns = sum(
            row["kernel_ns"]
            for row in trace.query("kernel_classes").to_dicts()
            if row["class"] == "memset"
        )
        # HTA has a row per combination of kinds.
        comm = sum(time for kind, time in types.items() if "COMMUNICATION" in kind)
        assert comm == us(ours["comm_ns"])
        # Equal except for memsets during communication, which HTA does not count as compute.
        hidden_ns = ours["comm_ns"] - ours["exposed_comm_ns"]
        assert 0 <= hidden_ns / 1000 - overlap <= memset_ns / 1000
        assert theirs["overlap"]["comp_comm_overlap_pctg"] == pytest.approx(
            ours["overlapped_comm_pct"], abs=0.005 + 100 * memset_ns / ours["comm_ns"]
        )


def test_kernels(public_traces: Path, opened: Opened, hta: Hta) -> None:
    for path in whole(public_traces):
        kernels = opened(path).query("kernels", limit=0).to_dicts()
        theirs = hta[path.name]["kernels"]
        ours = {row["name"]: row for row in kernels}
        assert set(theirs) == set(ours), path.name
        for name, row in ours.items():
            # HTA reports integer microseconds.
            assert theirs[name] == pytest.approx(row["kernel_ns"] / 1000, abs=1), name


def test_idle_time_of_streams(public_traces: Path, opened: Opened, hta: Hta) -> None:
    for path in [*whole(public_traces), public_traces / "deepseek_train_h800.json.gz"]:
        if has_events_before_the_window(opened(path)):
            # For events without a launch, HTA uses the first event of the file as the launch and
            # sorts gaps by its time.
            continue
        rows = opened(path).query("hta_idle").to_dicts()
        ours = {(row["stream"], row["category"]): row["idle_ns"] for row in rows}
        # HTA has a row `other` for the first event of a stream, although no gap precedes it.
        theirs = {
            (stream, category): idle
            for stream, category, idle in hta[path.name]["idle"]
            if (stream, category) in ours or idle
        }
        assert set(theirs) == set(ours), path.name
        for key, idle_ns in ours.items():
            assert theirs[key] == us(idle_ns), (path.name, key)


def test_launch_statistics(public_traces: Path, opened: Opened, hta: Hta) -> None:
    for path in [public_traces / "tl_h100_owlv2_large.json.gz", *ranks(public_traces)]:
        # HTA considers four calls, and tracekit all calls that launched work.
        rows = [
            row
            for row in opened(path).query("launch_delays").to_dicts()
            if row["launch"] in _LAUNCHES
        ]
        theirs = hta[path.name]["launches"]
        delay_ns = sum(row["mean_delay_ns"] * row["kernel_count"] for row in rows)
        assert theirs["count"] == sum(row["kernel_count"] for row in rows)
        assert theirs["cpu"] == us(sum(row["launch_ns"] for row in rows))
        assert theirs["delay"] == pytest.approx(delay_ns / 1000, rel=1e-6)
        assert theirs["short"] == sum(row["short_count"] for row in rows)


def test_kernel_sequences(public_traces: Path, opened: Opened, hta: Hta) -> None:
    for name, op, kept in (
        ("tl_h100_owlv2_large", "aten::conv2d", 1),
        ("hta_alexnet_cudasync", "aten::linear", 1),
        # HTA omits the last of five steps.
        ("hta_resnet_v100_ns", "aten::conv2d", 4 / 5),
    ):
        path = public_traces / f"{name}.json.gz"
        rows = opened(path).query("kernel_sequences", op=op, min_length=1, limit=0).to_dicts()
        ours = {"|".join((row["op"], *row["kernels"])): row for row in rows}
        theirs = hta[path.name]["sequences"][op]
        assert set(theirs) == set(ours), name
        for pattern, (count, kernel_us, host_us) in theirs.items():
            assert count == ours[pattern]["sequence_count"] * kept
            if kept == 1:
                assert kernel_us == us(ours[pattern]["kernel_ns"])
                assert host_us == us(ours[pattern]["host_ns"])


def test_where_hta_differs(public_traces: Path, opened: Opened, hta: Hta) -> None:
    def ours(name: str) -> dict[str, Any]:
        (row,) = opened(public_traces / f"{name}.json.gz").query("timeline").to_dicts()
        return row

    # HTA omits the last profiler step: 1,219 of the 6,095 device events.
    assert hta["hta_resnet_v100_ns.json.gz"]["event_count"] == 4_876
    assert ours("hta_resnet_v100_ns")["event_count"] == 6_095

    # HTA counts the rows of cuda_sync, which are waits on a stream, as work. This extends the
    # window and idle time by 75,581 µs.
    alexnet = ours("hta_alexnet_cudasync")
    theirs = hta["hta_alexnet_cudasync.json.gz"]
    assert theirs["event_count"] > alexnet["event_count"]
    assert theirs["temporal"]["idle_time(us)"] * 1000 - alexnet["idle_ns"] == 75_581_000

    # HTA does not recognize DeepEP kernels as communication: 0 % instead of 88 % of the step.
    deepseek = ours("deepseek_train_h800")
    assert "COMMUNICATION" not in hta["deepseek_train_h800.json.gz"]["kernel_types"]
    assert deepseek["comm_ns"] == 113_440_000

    # HTA does not recognize HIP calls or driver calls (725 from Triton in this trace) as launches.
    assert hta["hta_mi250_toy_train.json.gz"]["launches"]["count"] == 0
    assert hta["tl_h100_owlv2_large.json.gz"]["launches"]["count"] == 5_165 - 725
