"""Databases of rocprofv3 (rocpd) with its schema versions 3 and 4."""

import pytest
from databases_by_hand import database

import tracekit
from tracekit.errors import TraceError

STRINGS = [
    *("HIP_RUNTIME_API_EXT", "MARKER_CORE_RANGE_API", "KERNEL_DISPATCH", "MEMORY_COPY"),
    *("hipLaunchKernel", "hipMemcpyWithStream", "roctxThreadRangeA", "MEMORY_COPY_HOST_TO_DEVICE"),
    *("", "HSA_AMD_EXT_API", "hsa_amd_memory_async_copy_on_engine"),
]
ID = {string: number for number, string in enumerate(STRINGS, 1)}

PID, TID = 4001, 4002


class Process:
    """Rows of one process; each kernel, copy, and call comes with its event."""

    def __init__(self, version, machine="m1"):
        self.is_tracked = version.startswith("4")
        self.tables = {
            "rocpd_metadata": [{"tag": "schema_version", "value": version}],
            "rocpd_string": [{"id": number, "string": text} for text, number in ID.items()],
            "rocpd_info_node": [{"id": 1, "machine_id": machine, "hostname": "node7"}],
            "rocpd_info_process": [{"id": 9, "pid": PID}],
            "rocpd_info_thread": [{"id": 8, "tid": TID}],
            "rocpd_info_agent": [
                {"id": 0, "type": "CPU", "type_index": 0, "name": "EPYC", "model_name": ""}
                | {"product_name": "AMD EPYC"},
                {"id": 4, "type": "GPU", "type_index": 2, "name": "gfx942", "model_name": ""}
                | {"product_name": "AMD Instinct MI300X"},
            ],
            "rocpd_info_kernel_symbol": [
                {"id": 3, "kernel_name": "_Z4gemmPf.kd", "display_name": "gemm(float*)"}
            ],
        }
        names = ["event", "region", "kernel_dispatch", "memory_copy"]
        if self.is_tracked:
            names += ["track", "timestamp"]
            self.tables["rocpd_info_category"] = [
                {"id": number, "name": text} for text, number in ID.items()
            ]
        self.tables |= {f"rocpd_{name}": [] for name in names}

    def add(self, table, start, end, category, stack, **more):
        events = self.tables["rocpd_event"]
        extdata = more.pop("extdata", "{}")
        event = {"id": len(events) + 1, "category_id": ID[category], "stack_id": stack}
        events.append(event | {"extdata": extdata})
        place = {"pid": 9, "tid": 8}
        for column in ("agent_id", "queue_id", "stream_id"):
            place[column] = more.pop(column, None)
        times = {"start": start, "end": end}
        if self.is_tracked:
            tracks, stamps = self.tables["rocpd_track"], self.tables["rocpd_timestamp"]
            tracks.append({"id": len(tracks) + 1, **place})
            place = {"track_id": len(tracks)}
            stamps += [
                {"id": len(stamps) + number, "value": value}
                for number, value in ((1, start), (2, end))
            ]
            times = {"start_id": len(stamps) - 1, "end_id": len(stamps)}
        self.tables[table].append(place | times | {"event_id": event["id"]} | more)
        return self

    def written(self, end="_0001_7c"):
        return {f"{table}{end}": rows for table, rows in self.tables.items() if rows}


def process(version, machine="m1"):
    """Return a process that launches two kernels and a copy inside a range."""
    size = {f"{kind}_size_{axis}": 1 for kind in ("grid", "workgroup") for axis in "xyz"}
    size |= {"grid_size_x": 1000, "workgroup_size_x": 256}
    kernel = {"agent_id": 4, "kernel_id": 3, "queue_id": 5, **size}
    in_range = {"name_id": ID["roctxThreadRangeA"], "extdata": '{"message":"tk/step"}'}
    launch = {"name_id": ID["hipLaunchKernel"]}
    to_device = {"name_id": ID["MEMORY_COPY_HOST_TO_DEVICE"], "dst_agent_id": 4, "src_agent_id": 0}
    return (
        Process(version, machine)
        .add("rocpd_region", 900, 20_000, "MARKER_CORE_RANGE_API", 10, **in_range)
        .add("rocpd_region", 1_000, 3_001, "HIP_RUNTIME_API_EXT", 11, **launch)
        .add("rocpd_region", 4_000, 5_000, "HIP_RUNTIME_API_EXT", 12, **launch)
        .add(
            *("rocpd_region", 6_000, 9_000, "HIP_RUNTIME_API_EXT", 13),
            name_id=ID["hipMemcpyWithStream"],
        )
        .add("rocpd_region", 6_100, 8_900, "HSA_AMD_EXT_API", 14, name_id=len(STRINGS))
        .add("rocpd_kernel_dispatch", 5_000, 8_003, "KERNEL_DISPATCH", 11, stream_id=0, **kernel)
        .add("rocpd_kernel_dispatch", 8_100, 8_200, "KERNEL_DISPATCH", 12, stream_id=7, **kernel)
        .add(
            *("rocpd_memory_copy", 8_300, 8_800, "MEMORY_COPY", 14),
            **{"stream_id": 7, "size": 4096, **to_device},
        )
    )


EVENTS = [
    ("user_annotation", "tk/step", PID, TID, 900, 20_000, None, None, None),
    ("cuda_runtime", "hipLaunchKernel", PID, TID, 1_000, 3_001, 11, None, None),
    ("cuda_runtime", "hipLaunchKernel", PID, TID, 4_000, 5_000, 12, None, None),
    ("kernel", "gemm(float*)", 2, 0, 5_000, 8_003, 11, 2, 0),
    ("cuda_runtime", "hipMemcpyWithStream", PID, TID, 6_000, 9_000, 13, None, None),
    ("cuda_driver", STRINGS[-1], PID, TID, 6_100, 8_900, 14, None, None),
    ("kernel", "gemm(float*)", 2, 7, 8_100, 8_200, 12, 2, 7),
    ("gpu_memcpy", "MEMORY_COPY_HOST_TO_DEVICE", 2, 7, 8_300, 8_800, 14, 2, 7),
]

READ = (
    "SELECT category, name, pid, tid, ts_ns, ts_ns + dur_ns, correlation, device, stream "
    "FROM event ORDER BY ts_ns, correlation"
)


@pytest.mark.parametrize("version", ["3.0.0", "4.1.0"])
def test_every_row_is_its_event(tmp_path, version):
    path = database(tmp_path / "1234_results.db", process(version).written())
    with tracekit.open(path, cache=False) as trace:
        assert trace.sql(READ).rows == EVENTS
        args = "SELECT args -> '{}' FROM event WHERE category IN ('kernel', 'gpu_memcpy') LIMIT 1"
        assert trace.sql(args.format("grid")).rows == [("[4,1,1]",)]
        assert trace.sql("SELECT device_id, name FROM device").rows == [(2, "AMD Instinct MI300X")]
        assert trace.sql("SELECT host_name FROM trace").rows == [("node7",)]
        assert trace.sql(
            "SELECT count(launch_id)::BIGINT, sum(launch_delay_ns)::BIGINT FROM launch_link"
        ).rows == [(3, (5_000 - 3_001) + (8_100 - 5_000) + (8_300 - 8_900))]
        assert trace.sql("SELECT sum(bytes)::BIGINT FROM device_events").rows == [(4096,)]
        classes = "SELECT class, count(*)::BIGINT FROM device_events GROUP BY class ORDER BY class"
        assert trace.sql(classes).rows == [("gemm", 2), ("memcpy_h2d", 1)]


def test_without_streams_queues_keep_apart(tmp_path, load_file):
    one = process("3")
    one.tables["rocpd_kernel_dispatch"][1] |= {"stream_id": 0, "queue_id": 6}
    loaded = load_file(database(tmp_path / "a.db", one.written()))
    streams = "SELECT stream FROM event WHERE category = 'kernel' ORDER BY ts_ns"
    assert loaded.sql(streams) == [(5,), (6,)]


def test_merged_processes_keep_their_numbers(tmp_path):
    tables = process("3").written("_a") | process("3").written("_b")
    base = 1 << 32
    with tracekit.open(database(tmp_path / "merged.db", tables), cache=False) as trace:
        numbers = "SELECT correlation, stream FROM event WHERE category = 'kernel' ORDER BY ALL"
        expected = [(n + at, n + stream) for n in (0, base) for at, stream in ((11, 0), (12, 7))]
        assert trace.sql(numbers).rows == expected
        assert trace.sql("SELECT count(launch_id)::BIGINT FROM launch_link").rows == [(6,)]


def test_unreadable_databases_are_refused(tmp_path):
    newer = process("5.0.0").written()
    lacking = process("3")
    for row in lacking.tables["rocpd_region"]:
        row.pop("end", None)
    machines = process("3").written("_a") | process("3", "m2").written("_b")
    for tables, word in (
        (newer, "5.0.0"),
        (lacking.written(), "rocpd_region"),
        (machines, "2 machines"),
    ):
        path = database(tmp_path / "a.db", tables)
        with pytest.raises(TraceError, match=word) as raised:
            tracekit.open(path, cache=False)
        assert raised.value.message.startswith(f"{path}: ")
