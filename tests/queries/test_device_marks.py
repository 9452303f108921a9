"""Work of other accelerators, by the marks of their profilers; and what looks like a device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cases_as_ranks import AskedByRank, Cases
from traces_by_hand import Event, process, thread

import tracekit
from tracekit.analysis.device_rules import FILE_NAME, ROLES, lane_sql
from tracekit.analysis.rules import builtin_content


def span(
    pid: int, tid: int, name: str, ts: int, dur: int, cat: str | None = None, **args: Any
) -> Event:
    event = {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur, "args": args}
    return event if cat is None else {**event, "cat": cat}


CASES = Cases()
asked = CASES.fixture()


def timelines(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Device, window, compute, communication, copies, idle in µs, and count of each device."""
    return [
        (
            row["device"],
            *(
                row[f"{part}_ns"] // 1000
                for part in ("window", "compute", "exposed_comm", "exposed_memcpy", "idle")
            ),
            row["event_count"],
        )
        for row in rows
    ]


def accelerator(asked: AskedByRank, rank: int) -> tuple[Any, ...]:
    (row,) = asked.table(rank, "accelerator", "accelerator, is_recorded, unknown")
    return row


def classes(asked: AskedByRank, rank: int) -> dict[str, tuple[str, str]]:
    found = asked.table(rank, "device_events", "DISTINCT name, kind, class")
    return {name: (kind, kernel_class) for name, kind, kernel_class in found}


def test_the_rules_are_sound() -> None:
    content = builtin_content(FILE_NAME)
    known = {field for rule in content["rule"] for field in rule}
    assert known == {
        "accelerator", "role", "process", "label", "thread", "category", "event", "argument",
        "value", "class", "is_fallback", "is_one_device",
    }  # fmt: skip
    patterns = [content["unknown"]["process"], content["unknown"]["but_not"]]
    for rule in content["rule"]:
        assert rule["role"] in ROLES
        assert lane_sql(rule) != "TRUE"
        assert ("argument" in rule) == ("value" in rule)
        keys = ("process", "label", "thread", "category", "event", "value")
        patterns += [rule[key] for key in keys if key in rule]
    for mark in content["unrecorded"]:
        assert len(mark["reason"]) > 10
        patterns += [mark[key] for key in ("call", "label", "product", "op") if key in mark]
    for pattern in patterns:
        duckdb.execute("SELECT regexp_matches('', ?)", [pattern])


# -- MTIA ------------------------------------------------------------------------------------------


MTIA = CASES.add(
    [
        *process(17, "MTIA 17", "MTIA 17"),
        span(17, 3, "pe_exe", 100, 50, "mtia_ccp_events", stream=101, correlation=5),
        span(17, 3, "event_wait", 150, 40, "mtia_ccp_events", stream=101, wait_on_stream=104),
        span(17, 3, "event_record", 190, 1, "mtia_ccp_events", stream=101),
        span(17, 9, "dma_request", 195, 5, "mtia_ccp_events", direction="DEVICE_TO_HOST", size=64),
        span(17, 9, "dma_request", 210, 6, "mtia_ccp_events", direction="HOST_TO_DEVICE", size=32),
        span(5, 1, "runFunction - job_prep", 90, 5, "mtia_runtime", correlation=5),
    ]
)


def test_mtia_waits_are_no_work(asked: AskedByRank) -> None:
    assert timelines(asked.rows(MTIA, "timeline")) == [("17", 116, 50, 0, 11, 55, 3)]
    assert accelerator(asked, MTIA) == ("mtia", True, None)
    assert asked.table(MTIA, "device_events", "name, class, bytes, stream", "ts_ns") == [
        ("pe_exe", "other", None, 101),
        ("dma_request", "memcpy_d2h", 64, 9),
        ("dma_request", "memcpy_h2d", 32, 9),
    ]
    assert asked.table(MTIA, "attribution", "link", "event_id")[0] == ("launch",)


# -- HPU -------------------------------------------------------------------------------------------


HPU = CASES.add(
    [
        *process(5, "python", "CPU"),
        *process(0, "python", "HPU 0"),
        span(5, 1, "synLaunch", 0, 20, "hpu_op"),
        span(0, 7, "mme_kernel", 10, 30, "hpu_op", stream=7),
    ]
)


def test_hpu_events_of_the_host_are_no_work(asked: AskedByRank) -> None:
    assert timelines(asked.rows(HPU, "timeline")) == [("0", 30, 30, 0, 0, 0, 1)]
    assert accelerator(asked, HPU) == ("hpu", True, None)


# -- Ascend ----------------------------------------------------------------------------------------


def ascend() -> list[Event]:
    return [
        *process(1, "Python", "CPU"),
        *process(2, "CANN"),
        *process(3, "Ascend Hardware", "NPU"),
        *process(4, "Communication", "NPU"),
        *process(6, "Overlap Analysis", "NPU"),
        thread(3, 2, "Stream 2"),
        thread(4, 0, "Group 0 Communication"),
        thread(4, 1, "Plane 0"),
        span(1, 11, "aten::matmul", 0, 50, "cpu_op"),
        span(1, 11, "Enqueue@aclnnMatmul", 20, 5, "enqueue", correlation_id=0),
        span(2, 11, "Node@launch", 30, 5),
        span(3, 2, "MatMulV2", 100, 80, **{"Task Type": "AI_CORE"}),
        span(3, 2, "EVENT_WAIT", 180, 20, **{"Task Type": "EVENT_WAIT"}),
        span(3, 2, "MEMCPY_ASYNC", 200, 10, **{"Task Type": "SDMA_SQE"}),
        span(4, 0, "hcom_allReduce__123_0_1", 210, 40),
        span(4, 1, "Notify_Wait", 210, 30, **{"task type": "Notify_Wait"}),
        span(6, 1, "Computing", 100, 80),
        span(6, 2, "Free", 180, 30),
    ]


ASCEND = CASES.add(ascend())
# The queue of the host was recorded, and nothing of the device.
HOST_OF_ASCEND = CASES.add([event for event in ascend() if event["pid"] == 1])


def test_ascend(asked: AskedByRank) -> None:
    assert timelines(asked.rows(ASCEND, "timeline")) == [("npu", 150, 80, 40, 10, 20, 3)]
    assert accelerator(asked, ASCEND) == ("npu", True, None)
    assert classes(asked, ASCEND) == {
        "MatMulV2": ("compute", "gemm"),
        "MEMCPY_ASYNC": ("memcpy", "memcpy_d2d"),
        "hcom_allReduce__123_0_1": ("comm", "comm_allreduce"),
    }
    assert {row[0] for row in asked.table(ASCEND, "device_events", "stream")} == {2, 0}


def test_ascend_without_the_devices_data(asked: AskedByRank) -> None:
    ((name, reason),) = asked.table(HOST_OF_ASCEND, "accelerator", "accelerator, reason")
    assert name == "npu"
    assert reason.startswith("kernels were not recorded: 1 launch call")
    assert asked.rows(HOST_OF_ASCEND, "timeline") == []


# -- Intel XPU -------------------------------------------------------------------------------------


XPU = CASES.add(
    [
        span(5, 1, "aten::mm", 0, 20, "cpu_op"),
        span(5, 1, "zeCommandListAppendLaunchKernel", 5, 5, "xpu_driver", correlation=9),
        span(0, 7, "gemm_kernel", 30, 10, "kernel", device=0, stream=7, correlation=9),
        span(5, 1, "urQueueFinish", 12, 20, "xpu_sync"),
    ]
)


def test_xpu_driver_calls_launch(asked: AskedByRank) -> None:
    assert accelerator(asked, XPU) == ("xpu", True, None)
    assert asked.table(XPU, "attribution", "link, op_name") == [("launch", "aten::mm")]
    assert timelines(asked.rows(XPU, "timeline")) == [("0", 10, 10, 0, 0, 0, 1)]


# -- JAX, XProf ------------------------------------------------------------------------------------


def xprof(device: str) -> list[Event]:
    return [
        *process(1, f"/device:{device}:0"),
        *process(9, "/host:CPU"),
        thread(1, 1, "Steps"),
        thread(1, 2, "XLA Modules"),
        thread(1, 3, "XLA Ops"),
        span(1, 1, "0", 0, 100),
        span(1, 2, "jit_f", 0, 100),
        span(1, 3, "fusion.1", 10, 20),
        span(1, 3, "all-reduce.7", 40, 30),
        span(9, 1, "PjitFunction(f)", 0, 5),
    ]


XLA = {device: CASES.add(xprof(device)) for device in ("GPU", "TPU")}


@pytest.mark.parametrize("device", XLA)
def test_xla_ops(asked: AskedByRank, device: str) -> None:
    assert timelines(asked.rows(XLA[device], "timeline")) == [("0", 60, 20, 30, 0, 10, 2)]
    assert accelerator(asked, XLA[device]) == (device.lower(), True, None)
    assert classes(asked, XLA[device])["all-reduce.7"] == ("comm", "comm_allreduce")


XLA_STREAMS = CASES.add(
    [
        *xprof("GPU"),
        thread(1, 13, "Stream #13(Compute,MemcpyD2D)"),
        span(1, 13, "loop_fusion_kernel", 12, 15),
        span(1, 13, "MemcpyD2H", 50, 5),
    ]
)


def test_on_gpus_streams_are_the_work_where_there_are_some(asked: AskedByRank) -> None:
    assert timelines(asked.rows(XLA_STREAMS, "timeline")) == [("0", 43, 15, 0, 5, 23, 2)]
    assert {row[0] for row in asked.table(XLA_STREAMS, "device_events", "stream")} == {13}


TWO_TPUS = CASES.add(
    [
        *process(501, "/device:TPU:2 (pid 501)"),
        *process(502, "/device:TPU:3 (pid 502)"),
        thread(501, 3, "XLA Ops"),
        thread(502, 3, "XLA Ops"),
        span(501, 3, "dot.1", 0, 10),
        span(502, 3, "dot.1", 5, 10),
    ]
)


def test_two_devices(asked: AskedByRank) -> None:
    devices = [row[0] for row in timelines(asked.rows(TWO_TPUS, "timeline"))]
    assert devices in (["501", "502"], ["2", "3"])
    assert classes(asked, TWO_TPUS) == {"dot.1": ("compute", "gemm")}


# -- AIU -------------------------------------------------------------------------------------------


def test_aiu_of_a_public_sample(public_traces: Path) -> None:
    """By hand: 17 begin and end pairs, 2,702.353 µs, of which one of 280.967 µs is there twice."""
    path = public_traces.parent / "odd_traces" / "aiu_flex_job4.json.gz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with tracekit.open(path) as trace:
        (row,) = trace.query("timeline").to_dicts()
        assert (row["event_count"], row["compute_ns"]) == (17, 2_702_353 - 280_967)
        # From the first begin, of convolution, to the last end, of addmm.
        assert row["window_ns"] == 731_380_489 - 719_617_232
        assert trace.query("trace").column("accelerator") == ["aiu"]


def test_synthetic_ascend_is_busy_for_eight_tenths(public_traces: Path) -> None:
    path = public_traces.parent / "odd_traces" / "synth_ascend.json.gz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    # Ten kernels of 800 µs, one each ms: the window ends with the last of them.
    with tracekit.open(path) as trace:
        rows = trace.query("timeline").to_dicts()
    assert timelines(rows) == [("npu", 9_800, 8_000, 0, 0, 1_800, 10)]


# -- old Kineto, home-made traces ------------------------------------------------------------------


OLD_KINETO = CASES.add(
    [
        span(5, 1, "aten::mm", 0, 20, "Operator", **{"External id": 3}),
        span(5, 1, "cudaLaunchKernel", 5, 5, "Runtime", correlation=9),
        span(0, 7, "volta_sgemm_nn", 30, 10, "Kernel", device=0, stream=7, correlation=9),
        span(0, 7, "Memcpy DtoH (Device -> Pageable)", 40, 5, "Memcpy", device=0, stream=7),
        span(0, 7, "Memset (Device)", 45, 5, "Memset", device=0, stream=7),
    ]
)


def test_kineto_of_2021(asked: AskedByRank) -> None:
    assert timelines(asked.rows(OLD_KINETO, "timeline")) == [("0", 20, 15, 0, 5, 0, 3)]
    links = asked.table(OLD_KINETO, "attribution", "link, op_name", "event_id")
    assert links[0] == ("launch", "aten::mm")


def home_made() -> list[Event]:
    events: list[Event] = [*process(0, "GPU 0"), *process(1, "GPU 1"), *process(7, "host")]
    for pid in (0, 1):
        for phase, ts in (("B", 10 + pid), ("E", 30 + pid)):
            events.append({"ph": phase, "pid": pid, "tid": 1, "ts": ts, "name": "matmul"})
        events.append(span(pid, 1, "wait", 30 + pid, 5))
        events.append(span(pid, 1, "Memcpy HtoD", 40 + pid, 5))
    return [*events, span(7, 1, "train_step", 0, 100)]


HOME_MADE = CASES.add(home_made())


def test_home_made_traces_without_categories(asked: AskedByRank) -> None:
    assert timelines(asked.rows(HOME_MADE, "timeline")) == [
        ("0", 35, 20, 0, 5, 10, 2),
        ("1", 35, 20, 0, 5, 10, 2),
    ]
    assert accelerator(asked, HOME_MADE) == ("gpu", True, None)


ROWS_WITHOUT_NUMBER = CASES.add(
    [span(3, 1, "add Cmpt Exec", 0, 5), span(4, 1, "add Cmpt Exec", 2, 5)],
)


def test_rows_without_a_number_are_told_apart_by_process(asked: AskedByRank) -> None:
    assert [row[0] for row in timelines(asked.rows(ROWS_WITHOUT_NUMBER, "timeline"))] == ["3", "4"]


# -- what is not known -----------------------------------------------------------------------------


UNKNOWN_DEVICE = CASES.add(
    [
        *process(3, "/device:FOO:0"),
        *process(4, "/device:FOO:1"),
        *[span(3, 1, f"op{i}", i, 1) for i in range(100)],
        *[span(4, 1, f"op{i}", i, 1) for i in range(17)],
        span(5, 1, "aten::mm", 0, 20, "cpu_op"),
    ]
)


def test_an_unknown_device_is_named(asked: AskedByRank) -> None:
    said = (
        "processes `/device:FOO:0`, `/device:FOO:1` with 117 events look like a device; "
        "tracekit does not know them"
    )
    assert accelerator(asked, UNKNOWN_DEVICE) == ("unknown", False, said)
    assert asked.rows(UNKNOWN_DEVICE, "timeline") == []
    health = {row["metric"]: row for row in asked.rows(UNKNOWN_DEVICE, "health")}
    assert (health["unknown_devices"]["severity"], health["unknown_devices"]["meaning"]) == (
        "warn",
        said,
    )
    assert health["device_events"]["value"] is None


UNKNOWN_BESIDE_KNOWN = CASES.add(
    [
        *process(3, "NPU 7"),
        span(3, 1, "op", 1, 1),
        span(0, 7, "k", 30, 10, "kernel", device=0, stream=7),
    ]
)


def test_an_unknown_device_beside_a_known_one(asked: AskedByRank) -> None:
    said = "process `NPU 7` with 1 events looks like a device; tracekit does not know it"
    assert accelerator(asked, UNKNOWN_BESIDE_KNOWN) == ("cuda", True, said)
    assert len(timelines(asked.rows(UNKNOWN_BESIDE_KNOWN, "timeline"))) == 1


OTHER_PROCESSES = {
    name: CASES.add(
        [*process(5, name), span(5, 1, "anything", 0, 20), span(5, 1, "aten::mm", 0, 20, "cpu_op")]
    )
    for name in ("python", "gpu_worker", "/host:CPU", "/device:CPU:0", "trainer")
}


@pytest.mark.parametrize("name", OTHER_PROCESSES)
def test_other_processes_are_none(asked: AskedByRank, name: str) -> None:
    assert accelerator(asked, OTHER_PROCESSES[name]) == ("cpu", True, None)
    assert len(asked.rows(OTHER_PROCESSES[name], "timeline")) == 1


HOSTILE = CASES.add(
    [*process(3, "/device:FOO:0'; DROP TABLE event; --\x1b[2J"), span(3, 1, "x'(", 0, 1)]
)


def test_names_that_are_hostile(asked: AskedByRank) -> None:
    """Names are data: they are neither SQL nor patterns."""
    found = accelerator(asked, HOSTILE)
    assert found[0] in ("unknown", "cpu")
    assert json.dumps(found)
