"""Reader of torch dumps: allocator histories, flight recorder dumps, and memory timelines.

Allocator histories are pickles, memory timelines are JSON, and flight recorder dumps are either.
This module also reads the JSON of rocprofv3.

Sources of the formats: torch/cuda/_memory_viz.py (`_dump_snapshot`) and
torch/csrc/distributed/c10d/FlightRecorder.hpp (`_dump_nccl_trace`, `_dump_fr_trace`) of PyTorch.

The memory timeline that torch.profiler exports as raw JSON (`export_memory_timeline`) is a list of
[ns, action, bytes, category], with time -1 for blocks allocated before the recording. It has no
addresses, so a free is assigned to the latest block of the same size and category.
"""

from __future__ import annotations

import json
import pickle
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tracekit.errors import TraceError
from tracekit.ingest.formats.event_texts import EventTextReader, event_text
from tracekit.ingest.formats.plain_pickle import read_plain
from tracekit.ingest.formats.rocprof_json import RocprofFile, RocprofTrace, rocprof_file
from tracekit.units import GB, NS_PER_US

if TYPE_CHECKING:
    from tracekit.ingest.budget import Budget
    from tracekit.ingest.byte_stream import ByteStream
    from tracekit.ingest.event_collector import EventRows

MAX_BYTES = 4 * GB
"""Maximum file size. A pickle is read into memory, where its objects take several times its size.
"""

_OP = re.compile(r"at::_ops::(\w+?)(?:_(?:out|Tensor|Scalar))?::")
_CUDA = 1

_timeline = msgspec.json.Decoder(list[tuple[int, int, int, int]])


class Kind(Protocol):
    """Converter of one kind of content."""

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Yield the equivalent events of a Chrome trace, with times in ns."""
        ...

    def metadata(self) -> dict[str, object]:
        """Return the metadata, as torch.profiler writes it."""
        ...


class PickleReader(EventTextReader):
    def __init__(self, stream: ByteStream) -> None:
        super().__init__(stream)
        head = stream.head()
        self._form = "pickle" if head[:1] == pickle.PROTO else "JSON"
        self._is_rocprof = b'"rocprofiler-sdk-tool"' in head

    def blocks(self) -> Iterator[EventRows]:
        content = self._content()
        try:
            kind = self._known(content)
            self._metadata = kind.metadata()
            yield from self._rows(map(event_text, kind.events()))
        except (
            *(AttributeError, LookupError, TypeError, ValueError, ArithmeticError),
            *(RecursionError, msgspec.MsgspecError),
        ) as error:
            writer = "rocprofv3" if self._is_rocprof else "torch"
            raise TraceError(
                f"{self._stream.path}: not a file of {writer}: {type(error).__name__} at {error}"
            ) from error

    def unreadable(self) -> TraceError:
        return TraceError(f"{self._stream.path}: the recording is empty")

    def _content(self) -> object:
        path = self._stream.path
        text = complete_text(self._stream)
        try:
            if self._form == "pickle":
                return read_plain(text, self._budget)
            if self._is_rocprof:
                return rocprof_file.decode(text)
            is_timeline = text.lstrip()[:1] == b"["
            return _timeline.decode(text) if is_timeline else msgspec.json.decode(text)
        except (MemoryError, TraceError):
            raise
        except Exception as error:
            raise TraceError(
                f"{path}: unsupported {self._form}: {error}",
                hint="record a database, which is supported: rocprofv3 --output-format rocpd"
                if self._is_rocprof
                else (
                    "supported: basic types, as written by torch's _dump_snapshot and "
                    "_dump_nccl_trace"
                ),
            ) from error

    def _known(self, content: object) -> Kind:
        if isinstance(content, RocprofFile):
            return RocprofTrace(content)
        if isinstance(content, dict):
            if "device_traces" in content:
                return _AllocatorHistory(content, self._budget)
            if "entries" in content:
                return _FlightRecorder(content, self._budget)
        if isinstance(content, list) and self._form == "JSON":
            return MemoryTimeline(content)
        raise TraceError(
            f"{self._stream.path}: a {self._form} that is neither an allocator history "
            "nor a flight recorder dump"
        )


def complete_text(stream: ByteStream) -> bytearray:
    text = bytearray()
    for chunk in stream:
        text += chunk
        if len(text) > MAX_BYTES:
            raise TraceError(
                f"{stream.path}: larger than {MAX_BYTES // GB} GB, the limit for this format"
            )
    return text


class _AllocatorHistory:
    """Snapshot of the caching allocator with its history.

    Entries have no totals, so totals are computed backward from the final segments. They include
    each block, with its allocated size, until the device no longer uses it.
    """

    def __init__(self, content: Mapping[str, Any], budget: Budget) -> None:
        self._budget = budget
        self._segments: Sequence[Mapping[str, Any]] = content.get("segments", ())
        self._traces: Sequence[Sequence[Mapping[str, Any]]] = content["device_traces"]

    def metadata(self) -> dict[str, object]:
        return {"profile_memory": True}

    def events(self) -> Iterator[Mapping[str, Any]]:
        segments = defaultdict(list)
        for one in self._segments:
            segments[one.get("device", 0)].append(one)
        for device, entries in enumerate(self._traces):
            mine = segments[device]
            sizes = _block_sizes(entries, mine)
            allocated, reserved = _initial_bytes(entries, sizes, mine)
            times = [
                _integer(entry.get("time_us", at)) * NS_PER_US for at, entry in enumerate(entries)
            ]
            if times:
                yield recorded_span("allocator history", device, min(times), max(times))
            for at_ns, entry, size in zip(times, entries, sizes, strict=True):
                self._budget.admit_event(entry)
                action = entry["action"]
                if action == "oom":
                    yield {
                        "ph": "i",
                        "name": "[OutOfMemory]",
                        "pid": 0,
                        "tid": device,
                        "ts": at_ns,
                        "args": {
                            "Device Type": _CUDA,
                            "Device Id": device,
                            "Bytes": size,
                            **_call_stack(entry.get("frames") or ()),
                        },
                    }
                reserved += _reserved(action) * size
                change = _active(action) * size
                if not change:
                    continue
                allocated += change
                yield {
                    "ph": "i",
                    "cat": "cpu_instant_event",
                    "name": "[memory]",
                    "pid": 0,
                    "tid": device,
                    "ts": at_ns,
                    "args": {
                        "Device Type": _CUDA,
                        "Device Id": device,
                        "Addr": entry["addr"],
                        "Bytes": change,
                        "Total Allocated": allocated,
                        "Total Reserved": reserved,
                        "Stream": entry.get("stream"),
                        **_call_stack(entry.get("frames") or ()),
                    },
                }


_ROUNDED, _SPLIT_ABOVE = 512, 1 << 20
"""Constants of torch's caching allocator, in bytes. Sizes are rounded up to a multiple of the
first. A large allocation splits a free block only if the remainder is larger than the second."""


def _block_sizes(
    entries: Sequence[Mapping[str, Any]], segments: Sequence[Mapping[str, Any]]
) -> list[int]:
    """Return the size of each entry: for allocations and frees, the size of the block.

    Entries have the requested size, but torch counts the size of the block: the rounded size, or
    the complete free block if it is too small to split.
    """
    ends = {
        _integer(one["address"]): (
            _integer(one["address"]) + _integer(one["total_size"]),
            one.get("is_expandable", False),
        )
        for one in segments
        if "address" in one
    }
    for entry in entries:
        if entry["action"] == "segment_alloc":
            start = _integer(entry["addr"])
            ends.setdefault(start, (start + _integer(entry["size"]), False))
    starts = sorted(ends)
    blocks: dict[int, int] = {}
    free_early = {}
    for entry in reversed(entries):
        if entry["action"] == "free_completed":
            free_early[_integer(entry["addr"])] = _rounded(_integer(entry["size"]))
        elif entry["action"] == "alloc":
            free_early.pop(_integer(entry["addr"]), None)
    blocks |= free_early
    allocated = {entry["addr"] for entry in entries if entry["action"] == "alloc"}
    for segment in segments:
        address = _integer(segment.get("address", 0))
        for block in segment["blocks"] if "address" in segment else ():
            if block["state"].startswith("active") and address not in allocated:
                blocks[address] = _integer(block["size"])
            address += _integer(block["size"])
    # All addresses, sorted. `used` is true for addresses in current blocks.
    addresses = sorted({_integer(entry.get("addr", 0)) for entry in entries} | blocks.keys())
    order = {address: at for at, address in enumerate(addresses)}
    used = bytearray(address in blocks for address in addresses)
    sizes = []
    for entry in entries:
        action = entry["action"]
        address, size = _integer(entry.get("addr", 0)), _integer(entry["size"])
        if action == "alloc":
            size = _rounded(size)
            if at := bisect_right(starts, address):
                end, is_expandable = ends[starts[at - 1]]
                following = used.find(1, order[address] + 1)
                if following >= 0:
                    end = min(end, addresses[following])
                is_small = size <= _SPLIT_ABOVE or is_expandable
                if 0 < end - address - size < (_ROUNDED if is_small else _SPLIT_ABOVE + 1):
                    size = end - address
            blocks[address], used[order[address]] = size, 1
        elif action == "free_completed":
            size, used[order[address]] = blocks.pop(address, _rounded(size)), 0
        sizes.append(size)
    return sizes


def _rounded(size: int) -> int:
    return max(-(-size // _ROUNDED), 1) * _ROUNDED


def _initial_bytes(
    entries: Sequence[Mapping[str, Any]],
    sizes: Sequence[int],
    segments: Sequence[Mapping[str, Any]],
) -> tuple[int, int]:
    allocated = sum(
        _integer(block["size"])
        for segment in segments
        for block in segment["blocks"]
        if block["state"].startswith("active")
    )
    reserved = sum(_integer(segment["total_size"]) for segment in segments)
    for entry, size in zip(entries, sizes, strict=True):
        allocated -= _active(entry["action"]) * size
        reserved -= _reserved(entry["action"]) * size
    return allocated, reserved


def _integer(value: object) -> int:
    if isinstance(value, int):
        return value
    raise TypeError(f"a {type(value).__name__} instead of an integer")


def _active(action: str) -> int:
    return {"alloc": 1, "free_completed": -1}.get(action, 0)


def _reserved(action: str) -> int:
    return {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}.get(
        action, 0
    )


def _call_stack(frames: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    lines = [f"{frame['filename']}:{frame['line']}: {frame['name']}" for frame in frames]
    result = {"Stack": ";".join(lines)} if lines else {}
    own = (
        text
        for text, frame in zip(lines, frames, strict=True)
        if frame["filename"].endswith(".py") and "/torch/" not in frame["filename"]
    )
    ops = (_OP.search(frame["name"]) for frame in frames)
    line, op = next(own, None), next((one for one in ops if one), None)
    if line is not None:
        result["Line"] = line
    if op is not None:
        result["Op"] = f"aten::{op[1]}"
    return result


class _FlightRecorder:
    def __init__(self, content: Mapping[str, Any], budget: Budget) -> None:
        self._budget = budget
        self._entries: Sequence[Mapping[str, Any]] = content["entries"]
        self._groups: Mapping[str, Mapping[str, str]] = content.get("pg_config") or {}

    def metadata(self) -> dict[str, object]:
        ranks = cache(json.loads)  # many groups have the same ranks
        groups = [
            {
                "pg_name": name,
                "pg_desc": group.get("desc"),
                "ranks": ranks(group.get("ranks") or "[]"),
            }
            for name, group in self._groups.items()
        ]
        return {"distributedInfo": {"pg_config": groups}}

    def events(self) -> Iterator[Mapping[str, Any]]:
        # Also yielded for a rank without calls, because the other ranks wait for it.
        yield {"ph": "M", "name": "flight_recorder", "pid": 0, "tid": 0, "ts": 0}
        for entry in self._entries:
            self._budget.admit_event(entry)
            created_ns = entry["time_created_ns"]
            last_ns = entry.get("time_discovered_completed_ns") or created_ns
            group = entry.get("process_group") or (entry.get("pg_id"), "")
            frames = entry.get("frames") or ()
            args = {
                "pg_name": str(group[0]),
                "pg_desc": str(group[1]),
                "is_p2p": bool(entry.get("is_p2p")),
                "seq": entry["p2p_seq_id" if entry.get("is_p2p") else "collective_seq_id"],
                "state": entry["state"],
                **{
                    key: entry[key]
                    for key in (
                        *("input_sizes", "output_sizes", "input_dtypes", "timeout_ms"),
                        *("record_id", "retired"),
                    )
                    if key in entry
                },
                **_call_stack(frames),
            }
            yield {
                "ph": "X",
                "cat": "flight_recorder",
                "name": entry["profiling_name"],
                "pid": 0,
                "tid": 0,
                "ts": created_ns,
                "dur": max(last_ns - created_ns, 0),
                "args": args,
            }


_CATEGORIES = (
    *("parameters", "optimizer state", "inputs", "temporary", "activations", "gradients"),
    *("autograd detail", "unknown"),
)


class MemoryTimeline:
    def __init__(self, content: Sequence[Sequence[int]]) -> None:
        self._rows = content

    def metadata(self) -> dict[str, object]:
        return {"profile_memory": True}

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Yield an allocator event per row, in order, and a span of the recording."""
        times = [at_ns for at_ns, *_ in self._rows if at_ns >= 0]
        first_ns = min(times, default=0)
        yield recorded_span("memory timeline", 0, first_ns, max(times, default=0))
        blocks: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        allocated = 0
        for number, (at_ns, _action, change, category) in enumerate(self._rows, start=1):
            same = blocks[abs(change), category]
            address = number
            if change > 0:
                same.append(number)
            elif same:
                address = same.pop()
            allocated += change
            yield {
                "ph": "i",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "pid": 0,
                "tid": 0,
                "ts": max(at_ns, first_ns),
                "args": {
                    "Device Id": 0,
                    "Addr": address,
                    "Bytes": change,
                    "Total Allocated": allocated,
                    "Category": _CATEGORIES[category],
                },
            }


def recorded_span(name: str, device: int, first_ns: int, last_ns: int) -> Mapping[str, Any]:
    """Return an event that spans the recording; its start is the time origin."""
    return {
        "ph": "X",
        "cat": "memory_recording",
        "name": name,
        "pid": 0,
        "tid": device,
        "ts": first_ns,
        "dur": last_ns - first_ns,
    }
