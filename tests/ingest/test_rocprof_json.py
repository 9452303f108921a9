"""JSON of rocprofv3 is read into the same events as its database."""

import json

import pytest
from formats_by_hand import rocprof_process

import tracekit
from tracekit.errors import TraceError


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
    with tracekit.open(written(tmp_path, rocprof_process()), cache=False) as trace:
        name = "MEMORY_COPY_HOST_TO_DEVICE"
        assert trace.sql(WORK).rows == [
            ("5", 3, "gemm.kd", "gemm", 300, 400, 150, "layer"),
            ("5", 3, name, "memcpy_h2d", 800, 100, 630, None),
        ]
        sizes = "SELECT args ->> 'grid', args ->> 'block' FROM event WHERE category = 'kernel'"
        assert trace.sql(sizes).rows == [("[2,2,1]", "[256,1,1]")]
        assert trace.sql("SELECT device_id, name FROM device").rows == [(5, "AMD Instinct MI350X")]


def test_queues_replace_missing_streams_and_processes_stay_apart(tmp_path):
    path = written(tmp_path, rocprof_process(stream=0), rocprof_process(stream=0))
    with tracekit.open(path, cache=False) as trace:
        kernels = "SELECT stream, correlation FROM event WHERE category = 'kernel' ORDER BY ALL"
        second = 1 << 32
        assert trace.sql(kernels).rows == [(6, 2), (second + 6, second + 2)]


def test_missing_tables_and_symbols(tmp_path):
    content = rocprof_process()
    del content["kernel_symbols"]
    content["buffer_records"] = {"kernel_dispatch": content["buffer_records"]["kernel_dispatch"]}
    with tracekit.open(written(tmp_path, content), cache=False) as trace:
        (row,) = trace.sql("SELECT name, dur_ns, link FROM attributed_events").rows
    assert (row[0], row[1]) == ("kernel 8", 400)


def test_other_contents_are_refused(tmp_path):
    older = rocprof_process()
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
