"""XSpaces, the JSON of rocprofv3, and odd events, built by hand."""

import struct

from tracekit.wire import bytes_field, number_field, text_field, varint

ODD_EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 8, "ts": 10.25, "dur": 5}
    | {"args": {"External id": 3, "Input Dims": [[2, 3], [], [[1]]], "x": {"y": [{"z": {}}]}}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 8, "ts": 11}
    | {"dur": 1, "args": {"correlation": 4, "External id": 3}},
    {"ph": "X", "cat": "kernel", "name": "void k<int, (A)3>(f*[2], {})", "pid": 0, "tid": 7}
    | {"ts": 12.5, "dur": 3, "args": {"stream": 7, "device": 0, "correlation": 4}},
    {"ph": "s", "id": 9, "pid": 7, "tid": 8, "ts": 11, "cat": "ac2g", "name": "ac2g"},
    {"ph": "X", "name": 'quoted "k" \\ é\u2028\U0001f600', "ts": 3, "dur": 1, "pid": "a"},
    {"ph": "i", "name": "[memory]", "ts": 5, "pid": 7, "tid": 8, "s": "t"}
    | {"args": {"Addr": 5, "Bytes": -8, "Device Type": 1}},
    {"ph": "C", "name": "c", "ts": 6, "pid": 7, "args": {"v": 1}},
]

SESSION_NS = 10**18


def double_field(number, value):
    return varint(number << 3 | 1) + struct.pack("<d", value)


class Space:
    """Builds an XSpace with the field numbers of tsl/profiler/protobuf/xplane.proto."""

    def __init__(self):
        self.planes = []

    def plane(self, name, lines, **stats):
        """Add a plane; an event is name, start and end in ps, and stats."""
        names = {}
        kinds = {}

        def number(text):
            return names.setdefault(text, len(names) + 1)

        def stats_of(field, stats):
            found = b""
            for key, value in stats.items():
                stat = number_field(1, number(key))
                if isinstance(value, str):
                    is_reference = "/" in value
                    stat += number_field(7, number(value)) if is_reference else text_field(5, value)
                else:
                    is_double = isinstance(value, float)
                    stat += double_field(2, value) if is_double else number_field(4, value)
                found += bytes_field(field, stat)
            return found

        parts = text_field(2, name)
        for at, (line_name, events) in enumerate(lines.items()):
            line = number_field(1, at + 1) + text_field(2, line_name) + number_field(3, 1000)
            for kind, start, end, *more in events:
                event = number_field(1, kinds.setdefault(kind, len(kinds) + 1))
                event += number_field(2, start) + number_field(3, end - start)
                line += bytes_field(4, event + stats_of(4, *more or ({},)))
            parts += bytes_field(3, line)
        own = stats_of(6, stats)
        for kind, at in kinds.items():
            title, _, display = kind.partition(" = ")
            value = text_field(2, title) + (text_field(4, display) if display else b"")
            parts += bytes_field(4, number_field(1, at) + bytes_field(2, value))
        for text, at in names.items():
            parts += bytes_field(5, number_field(1, at) + bytes_field(2, text_field(2, text)))
        self.planes.append(bytes_field(1, parts + own))

    def program(self, name, ops):
        """Add a program of XLA, which stores its instructions in reverse order."""
        instructions = [
            text_field(1, one)
            + text_field(2, opcode)
            + bytes_field(7, text_field(2, path))
            + number_field(35, 100 + at)
            for at, (one, opcode, path) in enumerate(ops)
        ]
        entry = b"".join(bytes_field(2, one) for one in reversed(instructions)) + number_field(5, 9)
        order = bytes_field(1, b"".join(varint(100 + at) for at in range(len(ops))))
        schedule = bytes_field(1, number_field(1, 9) + bytes_field(2, order))
        module = bytes_field(3, entry) + number_field(6, 9) + bytes_field(7, schedule)
        stat = number_field(1, 1) + bytes_field(6, bytes_field(1, module))
        kind = number_field(1, 1) + bytes_field(2, text_field(2, name) + bytes_field(5, stat))
        self.planes.append(bytes_field(1, text_field(2, "/host:metadata") + bytes_field(4, kind)))

    def data(self):
        return b"".join([*self.planes, text_field(4, "node7")])

    def file(self, folder):
        path = folder / "host.xplane.pb"
        path.write_bytes(self.data())
        return path


def gpu_space():
    space = Space()
    forward = {"name": "jit(step)/jit(main)/jvp(Model)/layer_3/mlp/dot_general"}
    backward = {"name": "jit(step)/transpose(jvp(Model))/layer_3/mlp/dot_general"}
    details = {"kernel_details": "regs:32 grid:4,2,1 block:128,1,1 occ_pct:50"}
    copy = {"memcpy_details": "kind_src:pinned kind_dst:device size:4096 dest:0 async:1"}
    space.plane(
        "/host:CPU",
        {
            "python": [
                ("train", 0, 9_000_000, {"step_num": 4}),
                ("$loop.py:12 run", 0, 9_500_000),
                ("Runtime::Execute", 10_000, 8_000_000),
                ("cuLaunchKernel", 1_000_000, 1_100_000, {"correlation_id": 7} | forward),
                ("cuLaunchKernel", 2_000_000, 2_100_000, {"correlation_id": 8} | backward),
                ("cuMemcpyHtoDAsync", 3_000_000, 3_100_000, {"correlation_id": 9}),
            ]
        },
    )
    space.plane(
        "/device:GPU:1",
        {
            "Stream #20(Kernel)": [
                ("gemm", 1_500_999, 3_501_000, {"correlation_id": 7} | details | forward),
                ("gemm", 3_501_000, 4_001_000, {"correlation_id": 8} | details | backward),
                ("MemcpyH2D", 5_000_000, 6_000_000, {"correlation_id": 9} | copy),
            ],
            # XProf derives this line from the stream.
            "XLA Modules": [("jit_step", 1_500_000, 6_000_000)],
        },
        device_vendor="NVIDIA",
        compute_cap_major=9,
        compute_cap_minor=0,
        memory_size=80 << 30,
    )
    space.plane("Task Environment", {}, profile_start_time=SESSION_NS)
    return space


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


def rocprof_process(stream=3):
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
