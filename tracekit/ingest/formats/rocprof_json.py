"""Reader of the JSON output of rocprofv3 (`--output-format json`).

The format: source/lib/output/generateJSON.cpp of rocprofiler-sdk. The content and the resulting
events are the same as for the databases (:mod:`tracekit.ingest.formats.rocpd_trace`). Only the
members named here are decoded. Times are ns of a monotonic clock, not Unix times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tracekit.ingest.formats.rocpd_trace import CALL_CATEGORIES

_GPU = 2


class _Handle(msgspec.Struct, frozen=True):
    handle: int


class _Correlation(msgspec.Struct):
    internal: int


class _Dispatch(msgspec.Struct):
    agent_id: _Handle
    queue_id: _Handle
    kernel_id: int
    workgroup_size: dict[str, int]
    grid_size: dict[str, int]


class _Record(msgspec.Struct):
    kind: int
    operation: int
    start_timestamp: int
    end_timestamp: int
    correlation_id: _Correlation
    thread_id: int = 0
    stream_id: _Handle = _Handle(0)
    dispatch_info: _Dispatch | None = None
    src_agent_id: _Handle | None = None
    dst_agent_id: _Handle | None = None
    bytes: int | None = None


class _Records(msgspec.Struct):
    # Required, so that files of early versions, with another name, are rejected.
    kernel_dispatch: list[_Record]
    # Lists of records that were not requested or did not occur may be missing.
    memory_copy: list[_Record] = []
    hip_api: list[_Record] = []
    hsa_api: list[_Record] = []
    marker_api: list[_Record] = []
    rccl_api: list[_Record] = []


class _Agent(msgspec.Struct):
    id: _Handle
    type: int
    logical_node_type_id: int
    name: str = ""
    product_name: str = ""


class _Symbol(msgspec.Struct):
    kernel_id: int
    kernel_name: str
    formatted_kernel_name: str = ""


class _Names(msgspec.Struct):
    kind: str
    operations: list[str]


class _Message(msgspec.Struct):
    key: int
    value: str


class _Strings(msgspec.Struct):
    buffer_records: list[_Names]
    marker_api: list[_Message] = []


class _Node(msgspec.Struct, frozen=True):
    hostname: str | None = None


class _Described(msgspec.Struct):
    pid: int
    node: _Node = _Node()


class _Process(msgspec.Struct):
    metadata: _Described
    agents: list[_Agent]
    strings: _Strings
    buffer_records: _Records
    kernel_symbols: list[_Symbol] = []


class RocprofFile(msgspec.Struct, rename={"processes": "rocprofiler-sdk-tool"}):
    processes: list[_Process]


rocprof_file = msgspec.json.Decoder(RocprofFile)


class RocprofTrace:
    def __init__(self, content: RocprofFile) -> None:
        self._processes = content.processes

    def metadata(self) -> dict[str, object]:
        process = self._processes[0]
        return {
            "deviceProperties": [
                {"id": agent.logical_node_type_id, "name": agent.product_name or agent.name}
                for agent in process.agents
                if agent.type == _GPU
            ],
            "host_name": process.metadata.node.hostname,
        }

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Yield the events. Correlations and streams of process n, from 0, start at n * 2^32."""
        for number, process in enumerate(self._processes):
            yield from _events_of(process, number << 32)


def _events_of(process: _Process, base: int) -> Iterator[Mapping[str, Any]]:
    records = process.buffer_records
    gpus = {a.id.handle: a.logical_node_type_id for a in process.agents if a.type == _GPU}
    kernels = {
        symbol.kernel_id: symbol.formatted_kernel_name or symbol.kernel_name
        for symbol in process.kernel_symbols
    }
    messages = {message.key: message.value for message in process.strings.marker_api}
    # If streams were not recorded, all work has stream 0. Queues then separate concurrent work.
    has_streams = any(record.stream_id.handle for record in records.kernel_dispatch)

    def written(record: _Record, name: str, category: str, pid: int, tid: int) -> dict[str, Any]:
        number = record.correlation_id.internal
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": record.start_timestamp,
            "dur": record.end_timestamp - record.start_timestamp,
            "args": {"correlation": base + number if number else 0},
        }

    def on_device(record: _Record, name: str, category: str, gpu: int, lane: int) -> dict[str, Any]:
        event = written(record, name, category, gpu, base + lane)
        event["args"] |= {"device": gpu, "stream": base + lane}
        return event

    def called(record: _Record) -> tuple[str, str]:
        names = process.strings.buffer_records[record.kind]
        return names.kind, names.operations[record.operation]

    for record in records.kernel_dispatch:
        dispatch = record.dispatch_info
        if dispatch is None:
            raise ValueError("a kernel without dispatch_info")
        lane = record.stream_id if has_streams else dispatch.queue_id
        event = on_device(
            record,
            kernels.get(dispatch.kernel_id, f"kernel {dispatch.kernel_id}"),
            "kernel",
            gpus[dispatch.agent_id.handle],
            lane.handle,
        )
        block = [dispatch.workgroup_size[axis] for axis in "xyz"]
        # HSA grids count threads, HIP grids count blocks.
        grid = [-(-dispatch.grid_size[axis] // dispatch.workgroup_size[axis]) for axis in "xyz"]
        event["args"] |= {"grid": grid, "block": block, "queue": dispatch.queue_id.handle}
        yield event
    for record in records.memory_copy:
        ends = (record.dst_agent_id, record.src_agent_id)
        gpu = next((gpus[end.handle] for end in ends if end and end.handle in gpus), 0)
        event = on_device(record, called(record)[1], "gpu_memcpy", gpu, record.stream_id.handle)
        event["args"]["bytes"] = record.bytes
        yield event
    for call in (*records.hip_api, *records.hsa_api, *records.marker_api, *records.rccl_api):
        kind, operation = called(call)
        category = CALL_CATEGORIES.get(kind.partition("_")[0], kind.lower())
        is_range = category == "user_annotation"
        name = messages.get(call.correlation_id.internal, operation) if is_range else operation
        event = written(call, name, category, process.metadata.pid, call.thread_id)
        if is_range:
            event["args"] = {}
        yield event
