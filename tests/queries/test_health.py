"""Data quality of a trace: the read files, and the facts known after ingest."""

import json

from traces_by_hand import call as launch
from traces_by_hand import kernel, span

import tracekit


def test_everything_that_can_be_wrong(tiny_trace):
    events = [
        launch(0, 5, 1),
        kernel("ampere_sgemm_128x64_tn", 3, 8, 1),  # Starts before its launch returns.
        kernel("what is this", 7, 9, 99),  # On the same stream before the first ends; no launch.
        kernel("what is this", 7, 10, 0, stream=8),  # Correlation 0 does not link.
        kernel("what is this", 12, 12, 98),
        span("cpu_op", "aten::mm", 0, 20, finished="false"),
        span("cpu_op", "aten::mm", 0, 20, finished=False),
        span("cpu_op", "aten::mm", 0, 20, finished="true"),
        span("overhead", "Lazy Function Loading", 0, 1.5),
        span("overhead", "Buffer Flush", 3, 4),
    ]
    text = (
        json.dumps(events)[1:-1] + ', 5, {"ph": "X", "name": "a"b", "ts": 1, "dur": 1}, {"ph": "X"'
    )
    path = tiny_trace(f'{{"distributedInfo": {{"world_size": 4}}, "traceEvents": [{text}')
    with tracekit.open(path, cache=False) as trace:
        assert trace.health() == trace.query("health")
        rows = trace.health().to_dicts()
    found = {row["metric"]: (row["value"], row["unit"], row["severity"]) for row in rows}
    wanted = {
        "implausible_records": (0, "count", "ok"),
        "rejected": (2, "count", "warn"),
        "repaired": (1, "count", "note"),
        "truncated": (1, "count", "warn"),
        "rank_unknown": (1, "count", "note"),
        "duplicate_ranks": (None, "count", "ok"),
        "missing_ranks": (4, "count", "note"),
        "device_events": (4, "count", "ok"),
        "device_time_linked": (50, "pct", "warn"),
        "unlinked_device_events": (3, "count", "note"),
        "device_time_classified": (50, "pct", "note"),
        "zero_duration_device_events": (1, "count", "note"),
        "same_stream_overlaps": (1, "count", "note"),
        "started_before_launch_returned": (1, "count", "ok"),
        "unfinished_ops": (2, "count", "note"),
        "profiler_overhead": (2500, "ns", "note"),
    }
    assert found.items() >= wanted.items()


def test_paths_of_modules_in_thousands_of_others_are_cut(tiny_trace):
    """3,000 modules with one kernel each; truncation is reported, and sums are complete."""
    count = 3000
    events = []
    for number in range(count):
        at = 10 * number
        name = f"nn.Module: Block_{number}"
        events += [
            span("python_function", name, at, 10 * (2 * count - number)),
            launch(at + 2, at + 5, number),
            kernel("gemm", at + 6, at + 8, number),
        ]
    with tracekit.open(tiny_trace(events), cache=False) as trace:
        rows = trace.query("modules").to_dicts()
        (cut,) = [row for row in trace.health().to_dicts() if row["metric"] == "cut_module_paths"]
    by_depth = {row["depth"]: row for row in rows}
    # Correlation 0 means none.
    assert [by_depth[depth]["total_wall_ns"] for depth in (1, 1500, 2999)] == [
        *(2000 * 2999, 2000 * 1500, 2000)
    ]
    assert len({row["module_path"] for row in rows}) == len(rows)
    is_cut = ["…" in row["module_path"] for row in rows]
    assert (cut["value"], cut["severity"]) == (sum(is_cut), "note")
    assert all(
        row["module_path"].endswith(f"/Block_{row['depth']}") for row in rows if row["depth"]
    )
    assert max(len(row["module_path"]) for row in rows) < 2100


def test_two_files_of_a_run(tiny_trace):
    kernels = [
        span("kernel", "k", 5, 9, device=1, stream=7),
        span("kernel", "k", 6, 8, device=0, stream=7),
        span("gpu_memcpy", "Memcpy HtoD", 6, 8, device=0, stream=7),
        span("cpu_op", "aten::mm", 1, 4),
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
    ]
    second = tiny_trace(
        kernels,
        name="b/rank7.json",
        distributedInfo={"rank": 1, "world_size": 2, "backend": "nccl"},
        deviceProperties=[{"id": 0, "name": "NVIDIA H100"}, {"id": 1, "name": ""}],
    )
    broken = json.dumps([span("cpu_op", "aten::mm", 1, 4)])[:-1] + ',5,{"ph":"X"'
    first = tiny_trace(broken, name="b/worker0.json")
    sizes = [2 * [path.stat().st_size] for path in (first, second)]
    with tracekit.open(first.parent, cache=False) as trace:
        result = trace.query("trace")
    assert result.column_names == (
        "rank", "rank_source", "file", "world_size", "accelerator", "is_recorded", "devices",
        "file_bytes", "text_bytes", "event_count", "complete_count", "device_event_count",
        "rejected_count", "repaired_count", "is_truncated", "window_ns",
        "execution_trace",
    )  # fmt: skip
    assert result.rows == [
        (
            *(0, "file name", str(first), None, "cpu", True, ["cpu"], *sizes[0]),
            *(1, 1, 1, 2, 0, True, 3_000, None),
        ),
        (
            *(1, "distributedInfo", str(second), 2, "cuda", True, ["0 NVIDIA H100", "1"]),
            *(*sizes[1], 5, 4, 3, 0, 0, False, 8_000, None),
        ),
    ]


def test_events_without_categories_do_not_identify_devices(tiny_trace, cli):
    """As `export_chrome_trace` of torch.autograd.profiler_legacy writes them."""
    args = {"ph": "X", "tid": 1, "pid": "CPU functions", "args": {}}
    path = tiny_trace([{"name": "aten::mm", "ts": 0, "dur": 5, **args}])
    with tracekit.open(path, cache=False) as trace:
        columns = "accelerator, is_recorded, launch_count, reason"
        ((*found, reason),) = trace.sql(f"SELECT {columns} FROM accelerator").rows
        assert found == ["unknown", False, None]
        assert trace.query("timeline").rows == []
        health = {row["metric"]: row for row in trace.health().to_dicts()}
    events = health["device_events"]
    assert (events["value"], events["severity"], events["meaning"]) == (None, "warn", reason)
    assert cli("compare", path, path).exit_code == 2
