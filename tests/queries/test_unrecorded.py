"""A run on a device whose kernels are not in the file is no run on the CPU."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases

import tracekit

Event = dict[str, Any]
Write = Callable[..., Path]

HOST = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 1, "ts": 0, "dur": 20},
    {"ph": "X", "cat": "cpu_op", "name": "aten::relu", "pid": 5, "tid": 1, "ts": 30, "dur": 5},
]
LAUNCH = {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 1, "ts": 5,
    "dur": 8, "args": {"correlation": 7},
}  # fmt: skip
LABEL = {"ph": "M", "name": "process_labels", "pid": 0, "args": {"labels": "GPU 0"}}


FOUND = "accelerator, is_recorded, launch_count, reason"
CASES = Cases()
asked = CASES.fixture(deviceProperties=[])


def found(asked: AskedByRank, rank: int) -> tuple[Any, ...]:
    (row,) = asked.table(rank, "accelerator", FOUND)
    return row


def found_alone(path: Path) -> tuple[Any, ...]:
    with tracekit.open(path, cache=False) as trace:
        (row,) = trace.sql(f"SELECT {FOUND} FROM accelerator").rows
        assert trace.query("timeline").rows == []
    return row


LAUNCHED = CASES.add([*HOST, LAUNCH])


def test_launches_without_kernels(asked: AskedByRank) -> None:
    name, is_recorded, launch_count, reason = found(asked, LAUNCHED)
    assert (name, is_recorded, launch_count) == ("cuda", False, 1)
    assert "1 launch call (cudaLaunchKernel)" in reason
    assert "CUPTI was not available or taken by another profiler" in reason
    for analysis in ("timeline", "phases", "kernels", "idle_causes", "steps", "memcpy"):
        assert asked.rows(LAUNCHED, analysis) == [], analysis
    rows = asked.rows(LAUNCHED, "unrecorded")
    assert [(row["kind"], row["name"], row["op_count"], row["host_ns"]) for row in rows] == [
        # The launch is inside of the op, and its time is its own.
        ("op", "aten::mm", 1, 12_000),
        ("call", "cudaLaunchKernel", 1, 8_000),
        ("op", "aten::relu", 1, 5_000),
    ]
    assert sum(row["host_pct"] for row in rows) == pytest.approx(100)
    (about,) = asked.rows(LAUNCHED, "trace")
    assert (about["is_recorded"], about["device_event_count"]) == (False, None)
    health = {row["metric"]: row for row in asked.rows(LAUNCHED, "health")}
    events = health["device_events"]
    assert (events["value"], events["severity"], events["meaning"]) == (None, "warn", reason)
    # None of the figures of the device is there, and none is 0.
    figures = {metric: row["value"] for metric, row in health.items()}
    assert {
        figures[metric]
        for metric in (
            "device_time_linked", "unlinked_device_events", "device_time_classified",
            "zero_duration_device_events", "same_stream_overlaps", "started_before_launch_returned",
            "device_time_in_op", "device_time_in_phase", "inferred_device_time",
            "launched_before_window", "launch_missing", "idle_explained", "unexplained_late_starts",
        )
    } == {None}  # fmt: skip


def test_devices_without_kernels(tiny_trace: Write) -> None:
    path = tiny_trace(HOST, deviceProperties=[{"id": 0, "name": "AMD Instinct MI300X"}])
    name, is_recorded, launch_count, reason = found_alone(path)
    assert (name, is_recorded, launch_count) == ("hip", False, 0)
    assert "the file describes 1 device (AMD Instinct MI300X)" in reason
    assert "only the activity of the CPU was recorded" in reason


NAMED_AFTER_A_DEVICE = CASES.add([*HOST, LABEL])


def test_processes_named_after_a_device_without_kernels(asked: AskedByRank) -> None:
    name, is_recorded, _, reason = found(asked, NAMED_AFTER_A_DEVICE)
    assert (name, is_recorded) == ("cuda", False)
    assert "1 process named after a device (GPU 0)" in reason


def test_of_a_file_that_is_cut_off_it_is_not_known(tmp_path: Path) -> None:
    text = json.dumps({"deviceProperties": [{"id": 0, "name": "A100"}], "traceEvents": HOST})
    path = tmp_path / "cut.json"
    path.write_text(text[: text.rindex("}, {") + 3] + '{"ph": "X", "cat": "ker', "utf-8")
    reason = found_alone(path)[-1]
    assert reason.endswith("; the file is cut off, and what is missing of it may hold the kernels")
    assert "only the activity of the CPU was recorded" not in reason


OPS = {"mps": "aten::_mps_convolution", "hpu": "hpu::cast", "npu": "npu::npu_rms_norm"}
OPS_OF = {name: CASES.add([{**HOST[0], "name": op}]) for name, op in OPS.items()}
REASONS = {"mps": "Instruments", "hpu": "only the activity of the CPU", "npu": "torch_npu.profiler"}


@pytest.mark.parametrize("accelerator", OPS)
def test_ops_that_one_accelerator_has(asked: AskedByRank, accelerator: str) -> None:
    name, is_recorded, _, reason = found(asked, OPS_OF[accelerator])
    assert (name, is_recorded) == (accelerator, False)
    assert OPS[accelerator] in reason
    assert REASONS[accelerator] in reason


LAUNCHES = [
    ("cuda_runtime", "hipLaunchKernel", "hip"),
    ("xpu_driver", "zeCommandListAppendLaunchKernel", "xpu"),
    ("xpu_runtime", "urEnqueueKernelLaunch", "xpu"),
    ("mtia_runtime", "runFunction - job_prep_and_submit_for_execution", "mtia"),
    ("Runtime", "cudaLaunchKernel", "cuda"),
    ("privateuse1_runtime", "launchKernel", "privateuse1"),
]


LAUNCHED_BY = [
    CASES.add([*HOST, {**LAUNCH, "cat": category, "name": name}]) for category, name, _ in LAUNCHES
]


def test_which_accelerator_it_was(asked: AskedByRank) -> None:
    for rank, launch in zip(LAUNCHED_BY, LAUNCHES, strict=True):
        assert found(asked, rank)[:-1] == (launch[-1], False, 1), launch


OF_THE_CPU = [
    CASES.add([*HOST, *more])
    for more in (
        [],
        # Kineto itself calls this, and asks for devices: nothing was put on one.
        [{**LAUNCH, "name": name} for name in ("cudaDeviceSynchronize", "cudaGetDevice")],
        [{**LABEL, "pid": 5, "args": {"labels": "CPU"}}],
    )
]


@pytest.mark.parametrize("rank", OF_THE_CPU, ids=["ops", "calls", "label"])
def test_a_trace_of_the_cpu_alone_stays_one(asked: AskedByRank, rank: int) -> None:
    assert found(asked, rank) == ("cpu", True, None, None)
    (row,) = asked.rows(rank, "timeline")
    assert (row["device"], row["compute_ns"], row["idle_ns"]) == ("cpu", 25_000, 10_000)
    assert asked.rows(rank, "unrecorded") == []


def test_one_rank_of_two(tiny_trace: Write) -> None:
    """A run of which one rank recorded its kernels."""
    kernel = {
        "ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 9, "dur": 4,
        "args": {"device": 0, "stream": 7, "correlation": 7},
    }  # fmt: skip
    first = tiny_trace([*HOST, LAUNCH, kernel], "run/rank0.json", distributedInfo={"rank": 0})
    tiny_trace([*HOST, LAUNCH], "run/rank1.json", distributedInfo={"rank": 1})
    with tracekit.open(first.parent, cache=False) as trace:
        assert trace.query("trace").column("device_event_count") == [1, None]
        assert trace.query("timeline").column("rank") == [0]
        assert set(trace.query("unrecorded").column("rank")) == {1}


def test_the_command_says_so(cli: Callable[..., Any], tiny_trace: Write) -> None:
    path = tiny_trace([*HOST, LAUNCH])
    shown = cli("breakdown", path)
    assert shown.exit_code == 0
    assert "cuda: kernels not recorded" in shown.stdout
    assert "Kernels were not recorded\n  1 launch call" in shown.stdout
    assert "CUPTI" in shown.stdout
    assert "cudaLaunchKernel" in shown.stdout
    assert "Health  warn  device events unknown" in shown.stdout
    for no_figure in ("Timeline", "compute", "Idle causes", "0 device events", "device work"):
        assert no_figure not in shown.stdout
    said = cli("breakdown", path, "--format", "json").json()
    assert said["trace"][0]["is_recorded"] is False
    assert said["trace"][0]["device_event_count"] is None
    assert said["timeline"] == []
    assert said["unrecorded"][0]["reason"].startswith("kernels were not recorded: 1 launch call")
    for format_name in ("csv", "markdown"):
        assert "kernels were not recorded" in cli("breakdown", path, "--format", format_name).stdout
    empty = cli("query", "timeline", path, "--format", "json")
    assert (empty.exit_code, empty.json()) == (0, [])
    assert empty.stderr == f"note: {said['unrecorded'][0]['reason']}\n"


def test_a_public_trace_without_its_kernels(public_traces: Path, tmp_path: Path) -> None:
    """All that a GPU run leaves but its device events: as where CUPTI was taken."""
    content = json.loads(gzip.decompress((public_traces / "tl_h100_qwen.json.gz").read_bytes()))
    device = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}
    content["traceEvents"] = [
        event for event in content["traceEvents"] if event.get("cat") not in device
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(content))
    name, is_recorded, launch_count, _ = found_alone(path)
    assert (name, is_recorded) == ("cuda", False)
    names = [
        event["name"] for event in content["traceEvents"] if event.get("cat") == "cuda_runtime"
    ]
    assert launch_count >= sum(called.startswith("cudaLaunchKernel") for called in names) > 1000


def test_events_without_categories_tell_nothing_of_devices(
    tiny_trace: Write, cli: Callable[..., Any]
) -> None:
    """As `export_chrome_trace` of torch.autograd.profiler_legacy writes them."""
    args = {"ph": "X", "tid": 1, "pid": "CPU functions", "args": {}}
    path = tiny_trace([{"name": "aten::mm", "ts": 0, "dur": 5, **args}])
    with tracekit.open(path, cache=False) as trace:
        ((name, is_recorded, launch_count, reason),) = trace.sql(
            f"SELECT {FOUND} FROM accelerator"
        ).rows
        health = {row["metric"]: row for row in trace.health().to_dicts()}
    assert (name, is_recorded, launch_count) == ("unknown", False, None)
    assert "no event has a category" in reason
    events = health["device_events"]
    assert (events["value"], events["severity"], events["meaning"]) == (None, "warn", reason)
    shown = cli("breakdown", path)
    assert "device work not known" in shown.stdout
    assert "Work of devices is not known" in shown.stdout
    compared = cli("compare", path, path)
    assert compared.exit_code == 2
    assert "has no known work of a device to compare" in compared.stderr
