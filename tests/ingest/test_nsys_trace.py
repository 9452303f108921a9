"""SQLite exports of Nsight Systems: each row becomes the event that Kineto would write."""

import gzip
import sqlite3
from contextlib import closing

import pytest
from databases_by_hand import database
from export_by_hand import FIRST, ID, SECOND, api, export, gemm, ranged, work
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.errors import TraceError

TWO_PROCESSES = export(
    CUPTI_ACTIVITY_KIND_KERNEL=[
        gemm(5_000_000_001, 5_000_010_004, 7, 11)
        | {"gridX": 4, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
        | {"registersPerThread": 32, "staticSharedMemory": 16, "dynamicSharedMemory": 48},
        gemm(5_000_020_000, 5_000_021_000, 7, 12, graphNodeId=9),
        gemm(5_000_000_900, 5_000_004_000, 7, 11, globalPid=SECOND, contextId=2),
    ],
    CUPTI_ACTIVITY_KIND_MEMCPY=[
        work(5_000_030_000, 5_000_031_500, 13, 13, bytes=4096, copyKind=1, srcKind=1, dstKind=2),
        work(5_000_032_000, 5_000_033_000, 13, 0, bytes=512, copyKind=12, srcKind=4, dstKind=7),
    ],
    CUPTI_ACTIVITY_KIND_MEMSET=[work(5_000_034_000, 5_000_034_100, 13, 14, bytes=64, memKind=2)],
    CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[work(5_000_040_000, 5_000_050_000, 7, 15, graphId=3)],
    CUPTI_ACTIVITY_KIND_RUNTIME=[
        api(4_999_990_000, 4_999_995_500, "cudaLaunchKernel_v7000", 11),
        api(5_000_010_000, 5_000_012_000, "cuLaunchKernelEx", 12),
        api(5_000_013_000, 5_000_014_000, "cudaMemcpyAsync_v3020", 13),
        api(5_000_015_000, 5_000_016_000, "cudaStreamGetCaptureInfo_v2_v11030", 0),
        api(4_999_990_500, 4_999_996_000, "cudaLaunchKernel_v7000", 11, SECOND | 202),
        api(5_000_060_000, 5_000_061_000, "cudaStreamSynchronize_v3020", 19, SECOND | 202),
        api(5_000_070_000, 5_000_071_000, "cudaStreamWaitEvent_v3020", 22),
        api(5_000_080_000, 5_000_081_000, "cudaEventSynchronize_v3020", 23),
    ],
    NVTX_EVENTS=[
        ranged(4_999_980_000, 5_000_060_000, None, textId=ID["tk/step"]),
        ranged(4_999_981_000, 4_999_982_000, "ncclAllReduce", domainId=2, eventType=60),
        ranged(4_999_983_000, None, "open"),
        ranged(4_999_984_000, None, "here", eventType=34),
        ranged(0, None, "NCCL", domainId=2, eventType=75),
    ],
    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=[
        # Of the second process, and as real files have it of device 0 and of the wrong type.
        work(5_000_060_000, 5_000_060_500, 7, 19, syncType=2, eventId=0xFFFFFFFF)
        | {"globalPid": SECOND, "contextId": 2},
        work(5_000_070_000, 5_000_070_500, 13, 22, syncType=2, eventId=5),
        work(5_000_080_000, 5_000_080_500, 0xFFFFFFFF, 23, syncType=1, eventId=6),
    ],
    CUPTI_ACTIVITY_KIND_CUDA_EVENT=[
        {"globalPid": FIRST, "eventId": 5, "correlationId": 20, "streamId": 7},
        {"globalPid": FIRST, "eventId": 5, "correlationId": 21, "streamId": 14},
        {"globalPid": FIRST, "eventId": 5, "correlationId": 30, "streamId": 15},
        {"globalPid": SECOND, "eventId": 5, "correlationId": 21, "streamId": 16},
    ],
    CUPTI_ACTIVITY_KIND_OVERHEAD=[api(5_000_001_000, 5_000_002_000, "gemm", 0)],
    PROCESSES=[{"globalPid": FIRST, "name": "python3"}, {"globalPid": 7 << 24, "name": "bash"}],
    ThreadNames=[
        {"globalTid": FIRST | 101, "nameId": ID["main [é]"]},
        {"globalTid": FIRST | 103, "nameId": ID["gemm"]},
    ],
    TARGET_INFO_CUDA_DEVICE=[
        {"pid": 100, "cudaId": 0, "gpuId": 1},
        {"pid": 200, "cudaId": 0, "gpuId": 3},
    ],
    TARGET_INFO_GPU=[
        {"id": gpu, "name": "NVIDIA H100 80GB HBM3", "totalMemory": 85_000_000_000, "smCount": 132}
        | {"computeMajor": 9, "computeMinor": 0}
        for gpu in (0, 1, 2, 3)
    ],
    TARGET_INFO_SESSION_START_TIME=[{"utcEpochNs": 1_779_630_014_975_716_426}],
    TARGET_INFO_SYSTEM_ENV=[{"name": "Hostname", "value": "node7"}],
)

BASE = 1 << 32
"""Added to the numbers of the second process."""

KERNEL = "void gemm<(int)2>(float*)"

EVENTS = [
    # category, name, pid, tid, start and end less 5 s, correlation, device, stream
    ("cpu", "tk/step", 100, 101, -20_000, 60_000, None, None, None),
    ("cpu", "ncclAllReduce", 100, 101, -19_000, -18_000, None, None, None),
    ("cpu", "cudaLaunchKernel", 100, 101, -10_000, -4_500, 11, None, None),
    ("cpu", "cudaLaunchKernel", 200, 202, -9_500, -4_000, BASE + 11, None, None),
    ("kernel", KERNEL, 1, 7, 1, 10_004, 11, 1, 7),
    ("kernel", KERNEL, 3, 7, 900, 4_000, BASE + 11, 3, 7),
    ("overhead", "gemm", 100, 101, 1_000, 2_000, None, None, None),
    ("cpu", "cuLaunchKernelEx", 100, 101, 10_000, 12_000, 12, None, None),
    ("cpu", "cudaMemcpyAsync", 100, 101, 13_000, 14_000, 13, None, None),
    ("cpu", "cudaStreamGetCaptureInfo_v2", 100, 101, 15_000, 16_000, None, None, None),
    ("kernel", KERNEL, 1, 7, 20_000, 21_000, 12, 1, 7),
    ("copy", "Memcpy HtoD (Pinned -> Device)", 1, 13, 30_000, 31_500, 13, 1, 13),
    ("copy", "Memcpy DtoH (Unified)", 1, 13, 32_000, 33_000, None, 1, 13),
    ("copy", "Memset (Device)", 1, 13, 34_000, 34_100, 14, 1, 13),
    ("kernel", "CUDA graph 3", 1, 7, 40_000, 50_000, 15, 1, 7),
    ("cpu", "cudaStreamSynchronize", 200, 202, 60_000, 61_000, BASE + 19, None, None),
    ("sync", "Stream Sync", 3, 7, 60_000, 60_500, BASE + 19, 3, 7),
    ("cpu", "cudaStreamWaitEvent", 100, 101, 70_000, 71_000, 22, None, None),
    ("sync", "Stream Wait Event", 1, 13, 70_000, 70_500, 22, 1, 13),
    ("cpu", "cudaEventSynchronize", 100, 101, 80_000, 81_000, 23, None, None),
    ("sync", "Event Sync", 1, -1, 80_000, 80_500, 23, 1, None),
]


def test_every_row_is_its_event(tmp_path):
    path = database(tmp_path / "report.sqlite", TWO_PROCESSES)
    with tracekit.open(path, cache=False) as trace:
        rows = trace.sql(
            "SELECT CASE WHEN category IN ('cuda_runtime', 'cuda_driver', 'user_annotation') "
            "THEN 'cpu' WHEN category IN ('gpu_memcpy', 'gpu_memset') THEN 'copy' "
            "ELSE replace(category, 'cuda_', '') END AS kind, name, pid, tid, ts_ns - 5e9::BIGINT, "
            "ts_ns + dur_ns - 5e9::BIGINT, correlation, device, stream FROM event "
            "WHERE name <> 'open' ORDER BY ts_ns, event.category = 'cuda_sync', event_id"
        ).rows
        assert [*rows] == EVENTS
        args = "SELECT args::VARCHAR FROM event WHERE correlation = {}"
        (shown,), *_ = trace.sql(args.format("11 AND category = 'kernel'")).rows
        assert shown == (
            '{"device":1,"context":1,"stream":7,"correlation":11,"registers per thread":32,'
            '"shared memory":64,"grid":[4,2,1],"block":[128,1,1]}'
        )
        assert "graph node id" in trace.sql(args.format("12 AND category = 'kernel'")).rows[0][0]
        waits = {
            name: waited
            for name, *waited in trace.sql(
                "SELECT name, args ->> 'wait_on_stream', args ->> 'wait_on_cuda_event_id', "
                "args ->> 'wait_on_cuda_event_record_corr_id' FROM event "
                "WHERE category = 'cuda_sync'"
            ).rows
        }
        # Of four records of event 5, the last one of this process before the wait.
        assert waits["Stream Wait Event"] == ["14", "5", "21"]
        assert waits["Event Sync"] == [None, "6", None]
        assert waits["Stream Sync"] == [None, None, None]
        times = "SELECT name, ts_ns - 5e9::BIGINT FROM "
        assert trace.sql(times + "instant").rows == [("here", -16_000)]
        opened = times + "event JOIN unpaired USING (trace_id, event_id)"
        assert trace.sql(opened).rows == [("open", -17_000)]
        domain = "SELECT args ->> 'domain' FROM event WHERE name = 'ncclAllReduce'"
        assert trace.sql(domain).rows == [("NCCL",)]
        named = "SELECT pid, tid, process_name, thread_name FROM thread WHERE pid > 99 ORDER BY ALL"
        assert trace.sql(named).rows == [
            (100, 0, "python3", None),
            (100, 101, "python3", "main [é]"),
            (200, 202, None, None),
        ]
        about = "SELECT host_name, base_time_ns, metadata ->> 'nsys_version' FROM trace"
        assert trace.sql(about).rows == [("node7", 1_779_630_014_975_716_426, "2026.2.1.210")]
        described = "SELECT device_id, name, compute_capability, sm_count FROM device"
        assert trace.sql(described).rows[3] == (3, "NVIDIA H100 80GB HBM3", "9.0", 132)


def test_processes_on_one_device_keep_their_streams(tmp_path, load_file):
    kernels = [gemm(0, 9_000, 7, 1), gemm(1_000, 8_000, 7, 1, globalPid=SECOND, contextId=2)]
    path = database(tmp_path / "a.sqlite", export(CUPTI_ACTIVITY_KIND_KERNEL=kernels))
    streams = load_file(path).sql("SELECT device, stream FROM event ORDER BY ts_ns")
    assert streams == [(0, 7), (0, BASE + 7)]


def test_analyses_match_those_of_a_chrome_trace(tmp_path, tiny_trace):
    chrome = tiny_trace(
        [
            span("user_annotation", "ProfilerStep#3", 0, 100),
            span("cpu_op", "aten::mm", 1, 9),
            call(2, 4, 1),
            kernel("ampere_sgemm_128x64_nn", 6, 16.5, 1),
            call(20, 60, 2, "cudaDeviceSynchronize"),
        ]
    )
    strings = ["cudaLaunchKernel_v7000", "cudaDeviceSynchronize_v3020", "ampere_sgemm_128x64_nn"]
    thread = 1 << 48 | 1 << 24 | 1
    path = database(
        tmp_path / "same.sqlite",
        {
            "StringIds": [{"id": n, "value": name} for n, name in enumerate(strings)],
            "CUPTI_ACTIVITY_KIND_KERNEL": [
                {"start": 6_000, "end": 16_500, "deviceId": 0, "streamId": 7, "correlationId": 1}
                | {"demangledName": 2}
            ],
            "CUPTI_ACTIVITY_KIND_RUNTIME": [
                {"start": start, "end": end, "globalTid": thread}
                | {"correlationId": n, "nameId": n - 1}
                for start, end, n in ((2_000, 4_000, 1), (20_000, 60_000, 2))
            ],
            "NVTX_EVENTS": [
                ranged(0, 100_000, "ProfilerStep#3, op_id = 4", globalTid=thread),
                ranged(1_000, 9_000, "aten::mm, seq = 8, op_id = 5", globalTid=thread),
            ],
        },
    )
    with tracekit.open(chrome, cache=False) as wanted, tracekit.open(path, cache=False) as trace:
        for name in ("kernels", "steps", "launch_delays", "idle_gaps", "phases", "critical_path"):
            found = [
                [{key: value for key, value in row.items() if key != "event_id"} for row in rows]
                for rows in (wanted.query(name).to_dicts(), trace.query(name).to_dicts())
            ]
            assert found[0] == found[1], name


def test_ranges_of_emit_nvtx_are_ops(tmp_path, load_file):
    texts = [
        "aten::add, seq = 17, op_id = 9, sizes = [[2, 3], []], input_op_ids = [[4, 0]]",
        "aten::empty, op_id = 12, sizes = [[]]",
        "autograd::engine::evaluate_function: AddBackward0, seq = 17, op_id = 20",
        "MyFunction, seq = 18",
        "tk/step 3, op_id = 30",
        "a range, of mine",
    ]
    ranges = [ranged(number * 10, number * 10 + 5, text) for number, text in enumerate(texts)]
    path = database(tmp_path / "a.sqlite", export(NVTX_EVENTS=ranges))
    columns = "category, name, sequence_number, forward_thread, args ->> 'Input Dims'"
    assert load_file(path).sql(f"SELECT {columns} FROM event ORDER BY ts_ns") == [
        ("cpu_op", "aten::add", 17, 0, "[[2,3],[]]"),
        ("cpu_op", "aten::empty", None, None, "[[]]"),
        ("cpu_op", "autograd::engine::evaluate_function: AddBackward0", 17, 1, None),
        ("cpu_op", "MyFunction", 18, 0, None),
        ("user_annotation", "tk/step 3", None, None, None),
        ("user_annotation", "a range, of mine", None, None, None),
    ]


def test_rows_that_are_no_events_are_counted(tmp_path, load_file):
    bad = [
        ranged(0, 10, None),
        ranged(5, 2, "ends before it starts"),
        ranged(7, 9, "coffee"),
        ranged(float("inf"), 9, "no whole number"),
        ranged(-1_500, 1_000_000_000_000_000_123, "as long as no range is"),
        ranged(-1_500, 500, "before the session"),
    ]
    path = database(tmp_path / "a.sqlite", export(NVTX_EVENTS=bad))
    with closing(sqlite3.connect(path)) as connection:
        latin = "UPDATE NVTX_EVENTS SET text = CAST(x'636166e9' AS TEXT) WHERE text = 'coffee'"
        connection.execute(latin)
        connection.commit()
    loaded = load_file(path)
    assert len(loaded.rejected) == 3
    assert [reason for *_, reason in loaded.repaired] == ["invalid UTF-8"]
    assert loaded.sql("SELECT name, ts_ns, dur_ns FROM event ORDER BY event_id") == [
        ("", 0, 10),
        ("caf\ufffd", 7, 2),
        ("before the session", -1_500, 2_000),
    ]


def test_it_is_found_by_name_and_by_content(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for rank in (0, 1):
        kernels = [gemm(0, 9_000 + rank, 7, 1)]
        database(run / f"rank{rank}.sqlite", export(CUPTI_ACTIVITY_KIND_KERNEL=kernels))
    (run / "report.nsys-rep").write_bytes(b"NV")
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress((run / "rank1.sqlite").read_bytes()))
    durations = "SELECT rank, dur_ns FROM event JOIN trace USING (trace_id) ORDER BY ALL"
    with tracekit.open(run, cache=False) as trace:
        assert trace.sql(durations).rows == [(0, 9_000), (1, 9_001)]
    with tracekit.open(packed, cache=False) as trace:
        assert trace.sql("SELECT dur_ns FROM event").rows == [(9_001,)]
    # Chrome traces in the folder take precedence.
    (run / "rank0.json").write_text('[{"ph": "X", "name": "a", "ts": 0, "dur": 1, "pid": 1}]')
    with tracekit.open(run, cache=False) as trace:
        assert trace.sql(durations).rows == [(0, 1_000)]


def test_metrics_of_gpus_are_samples(tmp_path):
    """The last bits of a typeId are the GPU; a metric without a name is ignored."""
    of_0, of_1 = 1 << 40, 1 << 40 | 1
    values = [
        (10, of_0, 1, 5),
        (10, of_0, 2, 70),
        (10, of_1, 1, 6),
        (20, of_0, 1, 7),
        (20, of_1, 3, 9),
    ]
    tables = {
        **TWO_PROCESSES,
        "GPU_METRICS": [
            {"timestamp": 5_000_000_000 + at, "typeId": gpu, "metricId": metric, "value": value}
            for at, gpu, metric, value in values
        ],
        "TARGET_INFO_GPU_METRICS": [
            {"typeId": gpu, "metricId": metric, "metricName": name}
            for gpu in (of_0, of_1)
            for metric, name in ((1, 'SMs "Active" [%]'), (2, "DRAM"))
        ],
    }
    with tracekit.open(database(tmp_path / "a.sqlite", tables), cache=False) as trace:
        found = trace.sql(
            "SELECT device, name, at_ns - 5000000000, value FROM counter_samples ORDER BY ALL"
        )
        assert [*found] == [
            ("0", "DRAM", 10, 70),
            ("0", 'SMs "Active" [%]', 10, 5),
            ("0", 'SMs "Active" [%]', 20, 7),
            ("1", 'SMs "Active" [%]', 10, 6),
        ]


def test_tables_may_have_a_number(tmp_path, load_file):
    tables = export(
        CUPTI_ACTIVITY_KIND_KERNEL_V2=[gemm(0, 1, 7, 1)],
        CUPTI_ACTIVITY_KIND_KERNEL_V3=[gemm(0, 2, 7, 1)],
    )
    path = database(tmp_path / "a.sqlite", tables)
    assert load_file(path).sql("SELECT dur_ns FROM event") == [(2,)]


def test_times_of_the_epoch_have_no_base(tmp_path, load_file):
    tables = export(
        CUPTI_ACTIVITY_KIND_KERNEL=[
            gemm(1_779_630_014_975_716_427, 1_779_630_014_975_716_500, 7, 1)
        ],
        TARGET_INFO_SESSION_START_TIME=[{"utcEpochNs": 1_779_630_014_975_716_426}],
        META_DATA_EXPORT=[{"name": "EXPORT_PARAM_TIME_NORMALIZE", "value": "true"}],
    )
    loaded = load_file(database(tmp_path / "a.sqlite", tables))
    times = loaded.sql("SELECT ts_ns, dur_ns, base_time_ns FROM event, trace")
    assert times == [(1_779_630_014_975_716_427, 73, 0)]


def version(number):
    return export(META_DATA_EXPORT=[{"name": "EXPORT_SCHEMA_VERSION", "value": number}])


@pytest.mark.parametrize(
    ("tables", "word"),
    [
        pytest.param({"moz_places": [{"id": 1}]}, "rocpd", id="another program"),
        pytest.param(version("4.0.1"), "4.0.1", id="a later schema"),
        pytest.param(version("new"), "schema new", id="no schema number"),
        pytest.param(
            export(NVTX_EVENTS=[{"start": 1, "eventType": 59, "text": "a"}]),
            "NVTX_EVENTS",
            id="no column",
        ),
        pytest.param(export(), "no device work", id="no row"),
    ],
)
def test_unreadable_exports_are_refused(tmp_path, tables, word):
    path = database(tmp_path / "a.db", tables)
    with pytest.raises(TraceError) as raised:
        tracekit.open(path, cache=False)
    assert raised.value.message.startswith(f"{path}: ")
    assert word in raised.value.message


def test_damaged_and_unfinished_databases_are_refused(tmp_path):
    path = database(tmp_path / "a.sqlite", TWO_PROCESSES)
    content = path.read_bytes()
    cut, packed = tmp_path / "cut.sqlite", tmp_path / "cut.sqlite.gz"
    for damaged in (
        content[:20_000],
        content.replace(b"globalPid", b"global\xffid"),
        content.replace(b"CREATE TABLE", b"CREAT\xff TABLE"),
    ):
        cut.write_bytes(damaged)
        with pytest.raises(TraceError, match=r"cut\.sqlite"):
            tracekit.open(cut, cache=False)
    packed.write_bytes(gzip.compress(content)[:-100])
    with pytest.raises(TraceError, match="gzip"):
        tracekit.open(packed, cache=False)
    (tmp_path / "a.sqlite-wal").write_bytes(b"pages")
    with pytest.raises(TraceError, match=r"a\.sqlite-wal"):
        tracekit.open(path, cache=False)


def test_the_hint_for_a_report_is_the_command_that_exports_it(tmp_path):
    (tmp_path / "run.nsys-rep").write_bytes(b"\x00")
    with pytest.raises(TraceError) as raised:
        tracekit.open(tmp_path / "run.nsys-rep")
    assert "nsys export --type sqlite run.nsys-rep" in str(raised.value.hint)


def test_views_of_a_database_are_not_read(tmp_path, load_file):
    path = database(tmp_path / "a.sqlite", export(CUPTI_ACTIVITY_KIND_KERNEL=[gemm(0, 9, 7, 1)]))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE VIEW NVTX_EVENTS AS SELECT 1 AS start, 2 AS end, 59 AS eventType, "
            "1 AS globalTid, load_extension('x') AS text"
        )
        connection.commit()
    assert load_file(path).sql("SELECT count(*) FROM event") == [(1,)]
