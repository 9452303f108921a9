"""Reader of XSpace files (`.xplane.pb`) from the JAX, TensorFlow, and PyTorch/XLA profilers.

The format: tsl/profiler/protobuf/xplane.proto of OpenXLA; the names of planes, lines, and stats are
defined in xla/tsl/profiler/utils/xplane_schema.h. The numbers below are field numbers. A plane is a
device or the host; a line is a stream or a thread. GPU work, and the CUDA or HIP calls that
launched it, become the events that torch.profiler (Kineto) writes for the same records. The lines
of a TPU keep their names, because queries/rules/device_events.toml identifies work by name. Events
on lines that are derived from GPU streams become annotations.

The start of an event is the time of its line, in ns, plus an offset in ps. Start and end are
rounded down to ns, so that adjacent events do not overlap. GPU times are already integer ns.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tracekit.errors import TraceError
from tracekit.ingest.budget import MAX_EVENT_BYTES
from tracekit.ingest.formats.event_texts import EventTextReader, event_text
from tracekit.wire import fields, read_varint

if TYPE_CHECKING:
    from tracekit.ingest.byte_stream import ByteStream
    from tracekit.ingest.event_collector import EventRows

_PS_PER_NS = 1000

_GPU = re.compile(r"/device:GPU:(\d{1,9})")
_STREAM = re.compile(r"Stream #(\d{1,18})\b")
_PYTHON_CALL = re.compile(r"\$(.+?):(\d+) (.+)", re.DOTALL)
_SIZES = re.compile(r"\b(grid|block):(\d{1,9}),(\d{1,9}),(\d{1,9})\b")
_BYTES = re.compile(r"\bsize:([1-9]\d{0,17})\b")

_HOST_PID = 1 << 20
"""Process id of the host plane if the file lacks one. The process id of a GPU is its device number,
as in torch.profiler. Other planes get larger ids than the host."""

_ON_STREAM = {
    "memcpy_details": "gpu_memcpy",
    "memset_details": "gpu_memset",
    "memalloc_details": "overhead",
    "memfree_details": "overhead",
    "memory_residency_details": "overhead",
}
"""Category of a stream event that has the given stat; other stream events are kernels."""

_PROPERTIES = {
    "device_type_string": "name",
    "memory_size": "totalGlobalMem",
    "compute_cap_major": "computeMajor",
    "compute_cap_minor": "computeMinor",
    "core_count": "numSms",
}
"""torch.profiler's name of each GPU property of a plane."""


class _Plane:
    def __init__(self, data: memoryview) -> None:
        self.name = ""
        self._lines: list[memoryview] = []
        self._stat_names: dict[int, str] = {}
        self._kinds: dict[int, memoryview] = {}
        self._read_kinds: dict[int, tuple[str, dict[str, Any]]] = {}
        stats = []
        for field, value in fields(data):
            if field == 2:
                self.name = _text(value)
            elif field == 3:
                self._lines.append(value)
            elif field in (4, 5):
                entry = dict(fields(value))
                number = _signed(entry.get(1, 0))
                if field == 4:
                    self._kinds[number] = entry[2]
                else:
                    self._stat_names[number] = _text(dict(fields(entry[2])).get(2, b""))
            elif field == 6:
                stats.append(value)
        self.stats = self._named(stats)

    def _named(self, stats: list[memoryview]) -> dict[str, Any]:
        """Return stats by name, without binary ones such as XLA programs."""
        result = {}
        size = 0
        for stat in stats:
            name, parsed = "", None
            for field, value in fields(stat):
                if field == 1:
                    name = self._stat_names.get(_signed(value), "")
                elif field == 2:
                    (parsed,) = struct.unpack("<d", value)
                elif field in (3, 4):
                    parsed = _signed(value) if field == 4 else value
                elif field == 5:
                    parsed = _text(value)
                elif field == 7:
                    parsed = self._stat_names.get(_signed(value))
            if parsed is not None:
                result[name] = parsed
                size += len(name) + (len(parsed) if isinstance(parsed, str) else 8)
                if size > MAX_EVENT_BYTES:
                    raise ValueError(f"statistics larger than {MAX_EVENT_BYTES >> 20} MiB")
        return result

    def _kind(self, number: int) -> tuple[str, dict[str, Any]]:
        """Return the name and stats of all events with this metadata id."""
        if number not in self._read_kinds:
            name, shown, stats = b"", b"", []
            for field, value in fields(self._kinds.get(number, memoryview(b""))):
                if field == 2:
                    name = value
                elif field == 4:
                    shown = value
                elif field == 5:
                    stats.append(value)
            self._read_kinds[number] = _text(shown) or _text(name), self._named(stats)
        return self._read_kinds[number]

    def programs(self) -> Iterator[tuple[str, memoryview]]:
        for kind in self._kinds.values():
            name = b""
            for field, value in fields(kind):
                if field == 2:
                    name = value
                elif field == 5 and isinstance(program := dict(fields(value)).get(6), memoryview):
                    yield _text(name), program

    def lines(self) -> Iterator[tuple[int, str, int, memoryview]]:
        """Yield number, name, time in ns, and content of each line."""
        for line in self._lines:
            members = dict(fields(line))
            name = _text(members.get(11, b"")) or _text(members.get(2, b""))
            yield _signed(members.get(1, 0)), name, _signed(members.get(3, 0)), line

    def event(self, data: memoryview, line_ns: int) -> dict[str, Any]:
        """Return an event in Chrome trace format, times in ns."""
        members = {}
        stats = []
        for field, value in fields(data):
            if field == 4:
                stats.append(value)
            else:
                members[field] = _signed(value)
        name, args = self._kind(members.get(1, 0))
        start_ps = members.get(2, 0)
        start_ns = start_ps // _PS_PER_NS
        return {
            # An event that aggregates several events has no time.
            "ph": "i" if 5 in members else "X",
            "name": name,
            "ts": line_ns + start_ns,
            "dur": (start_ps + members.get(3, 0)) // _PS_PER_NS - start_ns,
            "args": args | self._named(stats),
        }


class XSpaceReader(EventTextReader):
    def __init__(self, stream: ByteStream) -> None:
        super().__init__(stream)
        self._devices: list[dict[str, Any]] = []
        self._session: dict[str, Any] = {}
        self._first_ns = 1 << 63

    def blocks(self) -> Iterator[EventRows]:
        with self._stream.local_file() as path, path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            yield from self._rows(map(event_text, self._events(data)))

    def _read_metadata(self) -> dict[str, object]:
        result = {**self._metadata, "deviceProperties": self._devices}
        start_ns = self._session.get("profile_start_time")
        if isinstance(start_ns, int):
            # Times are relative to the start of the profile or, in older files, to the epoch.
            result["baseTimeNanoseconds"] = 0 if self._first_ns >= start_ns else start_ns
        return result

    def unreadable(self) -> TraceError:
        if self.truncation is not None:
            return TraceError(
                f"{self._stream.path}: the XSpace ends before its first event",
                hint="copy it again",
            )
        return TraceError(
            f"{self._stream.path}: the XSpace has no events",
            hint="check that the program ran anything between start_trace and stop_trace",
        )

    def _events(self, data: memoryview) -> Iterator[dict[str, Any]]:
        try:
            for number, plane in enumerate(self._planes(data)):
                yield from self._events_of(plane, number)
        except (LookupError, OverflowError, struct.error, TypeError, ValueError) as error:
            raise TraceError(
                f"{self._stream.path}: the XSpace is damaged: {error}", hint="copy it again"
            ) from error

    def _planes(self, data: memoryview) -> Iterator[_Plane]:
        """Yield each plane after reading all of it, because names follow the events."""
        parts = fields(data)
        value: Any
        while True:
            try:
                field, value = next(parts, (0, None))
            except IndexError:
                self.truncation = "the file ends inside a plane"
                return
            if field == 1:
                yield _Plane(value)
            elif field == 4:
                self._metadata["host_name"] = _text(value)
            elif value is None:
                return

    def _events_of(self, plane: _Plane, number: int) -> Iterator[dict[str, Any]]:
        gpu = _GPU.fullmatch(plane.name)
        is_host = plane.name.startswith("/host:")
        pid = _HOST_PID + number + 1
        if gpu:
            pid = int(gpu[1])
            described = {_PROPERTIES.get(key, key): value for key, value in plane.stats.items()}
            self._devices.append({**described, "id": pid})
        elif is_host:
            pid = plane.stats.get("process_id", _HOST_PID)
        if plane.name == "/host:metadata":
            self._metadata |= plane.stats
            for name, program in plane.programs():
                args = {"program": name, "ops": _ops_of(program)}
                yield {"ph": "M", "name": "hlo_program", "pid": pid, "tid": 0, "args": args}
        if plane.name == "Task Environment":
            self._session = plane.stats
        lines = [*plane.lines()]
        if lines:
            yield _name("process_name", pid, 0, plane.name)
        has_streams = any(_STREAM.match(name) for _, name, _, _ in lines)
        for tid, name, line_ns, line in lines:
            stream = _STREAM.match(name) if gpu else None
            tid = int(stream[1]) if stream else tid
            yield _name("thread_name", pid, tid, name)
            for field, data in fields(line):
                if field != 4:
                    continue
                event = plane.event(data, line_ns)
                self._first_ns = min(self._first_ns, line_ns)
                if stream:
                    _put_on_stream(event, pid, tid)
                elif gpu and has_streams:
                    event["cat"] = "gpu_user_annotation"
                elif is_host:
                    _put_on_host(event)
                event |= {"pid": pid, "tid": tid}
                if path := _path(event):
                    # Add the annotation that enclosed the launch.
                    yield {**event, "cat": "user_annotation", "name": path, "args": {}}
                yield event


def _put_on_stream(event: dict[str, Any], device: int, stream: int) -> None:
    args = event["args"]
    event["cat"] = next(
        (_ON_STREAM[low] for stat in args if (low := stat.lower()) in _ON_STREAM), "kernel"
    )
    details = str(args.get("kernel_details") or args.get("memcpy_details") or "")
    args |= {side: [int(size) for size in sizes] for side, *sizes in _SIZES.findall(details)}
    if size := _BYTES.search(details):
        args["bytes"] = int(size[1])
    args |= {"device": device, "stream": stream, "correlation": args.pop("correlation_id", 0)}


def _put_on_host(event: dict[str, Any]) -> None:
    args = event["args"]
    if "correlation_id" in args:
        event["cat"] = "cuda_runtime"
        args["correlation"] = args.pop("correlation_id")
    elif "step_num" in args:
        args["name"] = event["name"]
        event |= {"cat": "user_annotation", "name": f"ProfilerStep#{args['step_num']}"}
    elif call := _PYTHON_CALL.fullmatch(event["name"]):
        event |= {"cat": "python_function", "name": f"{call[1]}({call[2]}): {call[3]}"}
    elif "hlo_op" in args:
        event |= {"cat": "cpu_op", "name": f"xla::{event['name']}"}
    elif "::" not in event["name"] and not event["name"].startswith("end: "):
        # Events whose names have `::` or `end: ` belong to the runtime and get no category.
        event["cat"] = "user_annotation"


def _path(event: dict[str, Any]) -> str:
    """Return the path of the op that a call launches or that runs on the CPU.

    Without a path, return the op's HLO module, or "".
    """
    args = event["args"]
    if event.get("cat") not in ("cuda_runtime", "cpu_op"):
        return ""
    paths = args.get("name"), str(args.get("tf_op")).rpartition(":")[0], args.get("hlo_module")
    return next((path for path in paths[:2] if path and "/" in str(path)), paths[2] or "")


_NO_WORK = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"}
_NESTED = {"while", "conditional", "call"}
"""`_NO_WORK`: XLA instructions that launch no kernel; `_NESTED`: those with nested instructions."""


def _ops_of(program: memoryview) -> list[tuple[str, str, str]]:
    """Return name, opcode, and path of the instructions of an XLA program, in schedule order.

    The list is empty if the program has no sequential schedule, is too long, or is malformed. The
    format: xla/service/hlo.proto of OpenXLA.
    """
    if len(program) > MAX_EVENT_BYTES:
        return []
    try:
        module = [*fields(dict(fields(program))[1])]
        entry = next(value for field, value in module if field == 6)
        order = _scheduled([value for field, value in module if field == 7], entry)
        result: dict[int, tuple[str, str, str]] = {}
        for computation in (value for field, value in module if field == 3):
            parts = [*fields(computation)]
            if (5, entry) not in parts:
                continue
            for instruction in (value for field, value in parts if field == 2):
                members = dict(fields(instruction))
                path = dict(fields(members[7])).get(2, b"") if 7 in members else b""
                result[members[35]] = (_text(members[1]), _text(members[2]), _text(path))
        ops = [result[number] for number in order]
    except (LookupError, StopIteration, TypeError, ValueError):
        return []
    if any(opcode in _NESTED for _, opcode, _ in ops):
        return []
    return [op for op in ops if op[1] not in _NO_WORK]


def _scheduled(schedules: list[Any], computation: int) -> list[int]:
    """Return the ids of the instructions of a computation in schedule order."""
    for schedule in schedules:
        for _, entry in fields(schedule):
            members = dict(fields(entry))
            if members.get(1) != computation:
                continue
            numbers: list[int] = []
            for _, value in fields(members[2]):
                if isinstance(value, int):
                    numbers.append(value)
                    continue
                at = 0
                while at < len(value):
                    number, at = read_varint(value, at)
                    numbers.append(number)
            return numbers
    return []


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _text(value: memoryview | bytes) -> str:
    return str(value, "utf-8", "replace")


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
