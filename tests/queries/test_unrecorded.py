"""A run on a device whose kernels are not in the file is no run on the CPU."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


FOUND = "accelerator, is_recorded, launch_count, reason"


def found_alone(path: Path) -> tuple[Any, ...]:
    with tracekit.open(path, cache=False) as trace:
        (row,) = trace.sql(f"SELECT {FOUND} FROM accelerator").rows
        assert trace.query("timeline").rows == []
    return row


def test_of_a_file_that_is_cut_off_it_is_not_known(tmp_path: Path) -> None:
    text = json.dumps({"deviceProperties": [{"id": 0, "name": "A100"}], "traceEvents": HOST})
    path = tmp_path / "cut.json"
    path.write_text(text[: text.rindex("}, {") + 3] + '{"ph": "X", "cat": "ker', "utf-8")
    reason = found_alone(path)[-1]
    assert reason.endswith("; the file is cut off, and what is missing of it may hold the kernels")
    assert "only the activity of the CPU was recorded" not in reason


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
