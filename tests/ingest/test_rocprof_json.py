"""JSON of rocprofv3 is read into the same events as its database."""

import json

import pytest

import tracekit
from tracekit.errors import TraceError

NAMES = [
    {"kind": "NONE", "operations": []},
    {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel", "hipMemcpyAsync"]},
    {"kind": "MARKER_CORE_API", "operations": ["roctxRangePush"]},
    {"kind": "KERNEL_DISPATCH", "operations": ["", "", "COMPLETE"]},
    {"kind": "MEMORY_COPY", "operations": ["", "MEMORY_COPY_HOST_TO_DEVICE"]},
]
CPU, GPU = {"handle": 40}, {"handle": 41}


def record(kind, operation, number, start, end, **more):
    return {
        "size": 64, "kind": kind, "operation": operation,
        "correlation_id": {"internal": number, "external": 0}, "start_timestamp": start,
        "end_timestamp": end, "thread_id": 9, **more,
    }  # fmt: skip


def process(stream=3):
    size = {"x": 512, "y": 2, "z": 1}
    dispatch = {
        "agent_id": GPU,
        "queue_id": {"handle": 6},
        "kernel_id": 8,
        "workgroup_size": {"x": 256, "y": 1, "z": 1},
        "grid_size": size,
    }
    on_stream = {"stream_id": {"handle": stream}}
    return {
        "metadata": {"pid": 7, "node": {"hostname": "node3"}, "init_time": 1},
        "agents": [
            {"id": CPU, "type": 1, "logical_node_type_id": 0},
            {
                "id": GPU,
                "type": 2,
                "logical_node_type_id": 5,
                "product_name": "AMD Instinct MI350X",
            },
        ],
        "strings": {"buffer_records": NAMES, "marker_api": [{"key": 1, "value": "layer"}]},
        "kernel_symbols": [{"kernel_id": 8, "kernel_name": "gemm.kd"}],
        "buffer_records": {
            "kernel_dispatch": [record(3, 2, 2, 300, 700, dispatch_info=dispatch, **on_stream)],
            "memory_copy": [
                record(4, 1, 3, 800, 900, src_agent_id=CPU, dst_agent_id=GPU, bytes=64, **on_stream)
            ],
            "hip_api": [record(1, 0, 2, 100, 150), record(1, 1, 3, 160, 170)],
            "marker_api": [record(2, 0, 1, 50, 155)],
        },
    }


def written(folder, *processes):
    path = folder / "9_results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": processes}))
    return path


WORK = """
    SELECT device, stream, e.name, e.class, ts_ns + base_time_ns, dur_ns, launch_delay_ns,
        module.path
    FROM attributed_events AS e JOIN trace USING (trace_id)
    LEFT JOIN module USING (trace_id, module_id) ORDER BY correlation
"""


def test_work_calls_and_ranges(tmp_path):
    with tracekit.open(written(tmp_path, process()), cache=False) as trace:
        name = "MEMORY_COPY_HOST_TO_DEVICE"
        assert trace.sql(WORK).rows == [
            ("5", 3, "gemm.kd", "gemm", 300, 400, 150, "layer"),
            ("5", 3, name, "memcpy_h2d", 800, 100, 630, None),
        ]
        sizes = "SELECT args ->> 'grid', args ->> 'block' FROM event WHERE category = 'kernel'"
        assert trace.sql(sizes).rows == [("[2,2,1]", "[256,1,1]")]
        assert trace.sql("SELECT device_id, name FROM device").rows == [(5, "AMD Instinct MI350X")]


def test_queues_replace_missing_streams_and_processes_stay_apart(tmp_path):
    path = written(tmp_path, process(stream=0), process(stream=0))
    with tracekit.open(path, cache=False) as trace:
        kernels = "SELECT stream, correlation FROM event WHERE category = 'kernel' ORDER BY ALL"
        second = 1 << 32
        assert trace.sql(kernels).rows == [(6, 2), (second + 6, second + 2)]


def test_missing_tables_and_symbols(tmp_path):
    content = process()
    del content["kernel_symbols"]
    content["buffer_records"] = {"kernel_dispatch": content["buffer_records"]["kernel_dispatch"]}
    with tracekit.open(written(tmp_path, content), cache=False) as trace:
        (row,) = trace.sql("SELECT name, dur_ns, link FROM attributed_events").rows
    assert (row[0], row[1]) == ("kernel 8", 400)


def test_other_contents_are_refused(tmp_path):
    older = process()
    older["buffer_records"]["kernel_dispatches"] = older["buffer_records"].pop("kernel_dispatch")
    path = tmp_path / "9_results.json"
    for content, word in (
        (json.dumps({"rocprofiler-sdk-tool": [older]}), "kernel_dispatch"),
        ('{"rocprofiler-sdk-tool": [5]}', "int"),
        ('{"rocprofiler-sdk-tool": ' + "[" * 100_000, "JSON"),
    ):
        path.write_text(content)
        with pytest.raises(TraceError, match=word):
            tracekit.open(path, cache=False)
