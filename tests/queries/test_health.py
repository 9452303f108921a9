"""What the figures of a trace rest on: the parts that ingest and the device events can know."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import call as launch
from traces_by_hand import kernel, span

import tracekit

Write = Callable[..., Path]
FIRST = (
    "implausible_records",
    "rejected", "repaired", "truncated", "rank_unknown", "duplicate_ranks", "missing_ranks",
    "device_events", "device_time_linked", "unlinked_device_events", "device_time_classified",
    "zero_duration_device_events", "same_stream_overlaps", "started_before_launch_returned",
    "unfinished_ops", "profiler_overhead",
)  # fmt: skip


CASES = Cases()
asked = CASES.fixture()


def told(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Value, unit and severity of each metric of a trace."""
    assert [row["metric"] for row in rows][: len(FIRST)] == list(FIRST)
    return {row["metric"]: (row["value"], row["unit"], row["severity"]) for row in rows}


def explained(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["metric"]: row["meaning"] for row in rows}


def health(path: Path) -> list[dict[str, Any]]:
    """What is said of a trace that is alone."""
    with tracekit.open(path, cache=False) as trace:
        return trace.health().to_dicts()


def test_a_sound_trace(tiny_trace: Write) -> None:
    events = [launch(0, 2, 1), kernel("ampere_sgemm_128x64_tn", 3, 8, 1)]
    path = tiny_trace(events, distributedInfo={"rank": 0, "world_size": 1})
    rows = health(path)
    assert {metric: row for metric, row in told(rows).items() if metric in FIRST} == {
        "implausible_records": (0, "count", "ok"),
        "rejected": (0, "count", "ok"),
        "repaired": (0, "count", "ok"),
        "truncated": (0, "count", "ok"),
        "rank_unknown": (0, "count", "ok"),
        "duplicate_ranks": (0, "count", "ok"),
        "missing_ranks": (0, "count", "ok"),
        "device_events": (1, "count", "ok"),
        "device_time_linked": (100, "pct", "ok"),
        "unlinked_device_events": (0, "count", "ok"),
        "device_time_classified": (100, "pct", "ok"),
        "zero_duration_device_events": (0, "count", "ok"),
        "same_stream_overlaps": (0, "count", "ok"),
        "started_before_launch_returned": (0, "count", "ok"),
        "unfinished_ops": (0, "count", "ok"),
        "profiler_overhead": (0, "ns", "ok"),
    }
    assert explained(rows)["truncated"] == "the file is whole"
    assert explained(rows)["rank_unknown"] == "rank from distributedInfo"


def test_everything_that_can_be_wrong(tiny_trace: Write) -> None:
    events = [
        launch(0, 5, 1),
        kernel("ampere_sgemm_128x64_tn", 3, 8, 1),  # Starts before its launch returns.
        kernel("what is this", 7, 9, 99),  # On the same stream before the first ends; no launch.
        kernel("what is this", 7, 10, 0, stream=8),  # Correlation 0 is no link.
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
    found = told(health(path))
    assert {metric: row for metric, row in found.items() if metric in FIRST} == {
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


def test_what_was_cut_off_is_said(tiny_trace: Write) -> None:
    path = tiny_trace(json.dumps([kernel("k", 0, 1, 1)])[:-1])
    assert explained(health(path))["truncated"] == "the file ends inside the array of events"


LINKED = {
    us: CASES.add([launch(0, 1, 1), kernel("k", 2, 2 + us, 1), kernel("k", 5000, 6000 - us, 2)])
    for us in (1000, 990, 989, 900, 899)
}


def test_how_much_must_be_linked(asked: AskedByRank) -> None:
    severities = {1000: "ok", 990: "ok", 989: "note", 900: "note", 899: "warn"}
    for linked_us, severity in severities.items():
        found = told(asked.rows(LINKED[linked_us], "health"))["device_time_linked"]
        assert found == (linked_us / 10, "pct", severity)


# A graph replay: its kernels share the correlation of one launch, which may come twice.
REPLAY = CASES.add(
    [launch(0, 1, 5), launch(1, 2, 5), *[kernel("k", at, at + 1, 5) for at in range(10, 20)]]
)


def test_several_kernels_of_one_launch_are_linked_once(asked: AskedByRank) -> None:
    found = told(asked.rows(REPLAY, "health"))
    assert found["device_events"] == (10, "count", "ok")
    assert found["unlinked_device_events"] == (0, "count", "ok")


WITHOUT_ACCELERATOR = CASES.add([span("cpu_op", "aten::mm", 0, 10)])


def test_without_an_accelerator(asked: AskedByRank) -> None:
    rows = asked.rows(WITHOUT_ACCELERATOR, "health")
    found, meanings = told(rows), explained(rows)
    assert found["device_events"] == (1, "count", "ok")
    for metric in ("device_time_linked", "unlinked_device_events", "same_stream_overlaps"):
        assert found[metric][0] is None
        assert found[metric][2] == "ok"
    assert meanings["device_events"].startswith("no accelerator was recorded")
    assert meanings["device_time_linked"] == "ops of the CPU have no launch"


WITHOUT_WORK = CASES.add([span("python_function", "main", 0, 10)])


def test_without_any_work(asked: AskedByRank) -> None:
    rows = asked.rows(WITHOUT_WORK, "health")
    found = told(rows)
    assert found["device_events"] == (0, "count", "warn")
    assert found["device_time_classified"][0] is None
    assert explained(rows)["device_events"] == "no work of a device is in the trace"


def test_the_same_as_the_facade(tiny_trace: Write) -> None:
    with tracekit.open(tiny_trace([kernel("k", 0, 1, 1)]), cache=False) as trace:
        assert trace.health() == trace.query("health")
        assert trace.health().column_names == (
            "rank", "metric", "value", "unit", "severity", "meaning",
        )  # fmt: skip


NODE = "CompiledFunctionBackward"
# A fifth before the region, two fifths in it, two in its backward pass.
COMPILED = CASES.add(
    [
        launch(0, 1, 1),
        span("cpu_op", "Torch-Compiled Region: 0/1", 10, 30),
        span("cpu_op", "CompiledFunction", 12, 28),
        launch(14, 15, 2),
        launch(26, 27, 3),
        span("cpu_op", f"autograd::engine::evaluate_function: {NODE}", 40, 60),
        span("cpu_op", NODE, 42, 58),
        launch(50, 51, 4),
        *[kernel("gemm", at, at + 10, number) for number, at in enumerate((2, 16, 28), start=1)],
        kernel("gemm", 52, 72, 4),
    ]
)


def test_what_was_launched_in_compiled_regions(asked: AskedByRank) -> None:
    rows = asked.rows(COMPILED, "health")
    value, *rest = told(rows)["compiled_region_device_time"]
    assert (pytest.approx(value), *rest) == (80.0, "pct", "note")
    meaning = explained(rows)["compiled_region_device_time"]
    assert "(graphs 0/1)" in meaning
    assert "at the module that calls the region" in meaning


NOT_COMPILED = CASES.add(
    [launch(0, 2, 1), span("cpu_op", "my::CompiledFunction", 0, 3), kernel("gemm", 3, 8, 1)]
)


def test_a_trace_without_compiled_regions(asked: AskedByRank) -> None:
    found = told(asked.rows(NOT_COMPILED, "health"))
    assert found["compiled_region_device_time"] == (None, "pct", "ok")
    assert found["cut_module_paths"] == (None, "count", "ok")


def test_paths_of_modules_in_thousands_of_others_are_cut(tiny_trace: Write) -> None:
    """Each of 3,000 has one kernel; what is cut is said, and the sums stay whole."""
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
    # Correlation 0 stands for none.
    assert [by_depth[depth]["total_wall_ns"] for depth in (1, 1500, 2999)] == [
        2000 * 2999,
        2000 * 1500,
        2000,
    ]
    assert len({row["module_path"] for row in rows}) == len(rows)
    whole = [row for row in rows if "…" not in row["module_path"]]
    assert (cut["value"], cut["severity"]) == (len(rows) - len(whole), "note")
    assert all(
        row["module_path"].endswith(f"/Block_{row['depth']}") for row in rows if row["depth"]
    )
    assert max(len(row["module_path"]) for row in rows) < 2100


def call(name: str, at: float, correlation: int) -> Any:
    return span("cuda_runtime", name, at, at + 1, correlation=correlation)


def launched_and_captured(captured_count: int) -> list[Any]:
    """Two launches with work, and some that a graph captures."""
    return [
        launch(0, 1, 1),
        kernel("ampere_sgemm_128x64_tn", 3, 8, 1),
        launch(2, 3, 2),
        kernel("ampere_sgemm_128x64_tn", 9, 12, 2),
        call("cudaStreamBeginCapture", 10, 10),
        *(launch(20 + place, 20.5 + place, 20 + place) for place in range(captured_count)),
        call("cudaStreamEndCapture", 50, 11),
    ]


CAPTURED = {
    count: (CASES.add(launched_and_captured(count)), value, severity)
    for count, value, severity in ((0, 0, "ok"), (1, 100 / 3, "warn"), (6, 75, "warn"))
}


@pytest.mark.parametrize("count", CAPTURED)
def test_launches_that_a_graph_captured_have_no_work_here(asked: AskedByRank, count: int) -> None:
    rank, value, severity = CAPTURED[count]
    rows = asked.rows(rank, "health")
    assert told(rows)["launches_without_work"] == (pytest.approx(value), "pct", severity)
    said = explained(rows)["launches_without_work"]
    assert (f"{count} of {count + 2} were captured in a graph" in said) == (count > 0)
    assert ("graph launches in this file: 0" in said) == (count > 0)


def replayed(launch_at: float, start: float, end: float) -> int:
    """Six captured launches, and a replay."""
    replay = [call("cudaGraphLaunch", launch_at, 60)]
    replay.append(kernel("ampere_sgemm_128x64_tn", start, end, 60))
    return CASES.add([*launched_and_captured(6), *replay])


REPLAYED_LATER = replayed(60, 63, 70)
REPLAYED_BEFORE = replayed(5, 13, 14)


def test_what_is_replayed_in_the_same_file_is_not_missing(asked: AskedByRank) -> None:
    rows = asked.rows(REPLAYED_LATER, "health")
    assert told(rows)["launches_without_work"] == (0, "pct", "ok")
    assert "graph launches in this file: 1" in explained(rows)["launches_without_work"]


def test_a_replay_before_the_capture_is_of_another_graph(asked: AskedByRank) -> None:
    rows = asked.rows(REPLAYED_BEFORE, "health")
    assert told(rows)["launches_without_work"] == (pytest.approx(600 / 9), "pct", "warn")


DONE = [
    event
    for place in range(8)
    for event in (
        launch(place, place + 0.5, place + 1),
        kernel("k", 100 + place, 101 + place, place + 1),
    )
]
ALL_DONE = CASES.add(DONE)
ALL_BUT_ONE_DONE = CASES.add([*DONE, call("cudaMemsetAsync", 40, 40)])


def test_one_launch_in_nine_without_work_is_worth_a_note(asked: AskedByRank) -> None:
    rows = asked.rows(ALL_BUT_ONE_DONE, "health")
    assert told(rows)["launches_without_work"] == (pytest.approx(100 / 9), "pct", "note")
    assert "captured" not in explained(rows)["launches_without_work"]
    rows = asked.rows(ALL_DONE, "health")
    assert told(rows)["launches_without_work"] == (0, "pct", "ok")
