"""Reads what torch pickles: histories of the caching allocator, and NCCL's flight recorder.

A pickle can run any program. Here it may hold numbers, texts, lists, tuples and dictionaries alone;
whatever names a class or a function is refused.

Sources of the formats: torch/cuda/_memory_viz.py (`_dump_snapshot`) and
torch/csrc/distributed/c10d/FlightRecorder.hpp (`_dump_nccl_trace`) of PyTorch.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from tracekit.errors import TraceError
from tracekit.ingest.event_texts import EventTexts
from tracekit.units import GB, NS_PER_US

if TYPE_CHECKING:
    from tracekit.ingest.byte_stream import ByteStream
    from tracekit.ingest.event_collector import EventRows

MAX_BYTES = 4 * GB
"""A pickle is read whole, and takes several times its size."""

_OP = re.compile(r"at::_ops::(\w+?)(?:_(?:out|Tensor|Scalar))?::")
_CUDA = 1


_BASIC = (
    *("PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
    *("EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
    *("GLOBAL", "STACK_GLOBAL", "BINPERSID"),
)
"""The opcodes of basic types, and those that are refused with what they name."""


class _Plain(pickle._Unpickler):
    """Reads pickles of basic types.

    The unpickler in Python: that in C makes room for as many numbers as one of nine bytes says, and
    crashes where a key is a tuple in a tuple, many times over.
    """

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]
    dispatch: ClassVar[dict[int, Any]] = {
        code: pickle._Unpickler.dispatch[code]
        for code in (getattr(pickle, name)[0] for name in _BASIC)
    }

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"it names an object outside of it: {pid!r:.100}")

    def load(self) -> Any:
        try:
            return super().load()
        except KeyError as error:
            raise pickle.UnpicklingError(f"it holds more than basic types: {error}") from error

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set((key, value))

    def load_setitems(self) -> None:
        self._set(self.pop_mark())

    def _set(self, items: Sequence[Any]) -> None:
        keys = items[::2]
        if not all(isinstance(key, str | int) for key in keys):
            raise pickle.UnpicklingError("a key that is neither text nor number")
        self.stack[-1].update(zip(keys, items[1::2], strict=True))

    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems


class Kind(Protocol):
    """What a pickle holds."""

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a Chrome trace that say the same, times in ns."""
        ...

    def metadata(self) -> dict[str, object]:
        """Return what it says of itself, as torch.profiler writes it."""
        ...


class PickleReader:
    """A :class:`tracekit.ingest.trace_readers.TraceReader` of what torch pickles.

    Args:
        stream: the plain bytes of the file.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._texts = EventTexts()
        self._metadata: dict[str, object] = {}
        self.faults = self._texts.faults
        self.truncation: str | None = None

    @property
    def event_count(self) -> int:
        """Return the number of events so far."""
        return self._texts.event_count

    def blocks(self) -> Iterator[EventRows]:
        """Yield the records of the file.

        Raises:
            TraceError: the file cannot be read, or holds something else.
        """
        content = self._content()
        try:
            kind = self._known(content)
            self._metadata = kind.metadata()
            yield from self._texts.rows(map(_text, kind.events()))
        except (
            *(AttributeError, LookupError, TypeError, ValueError, ArithmeticError),
            *(RecursionError, msgspec.MsgspecError),
        ) as error:
            raise TraceError(
                f"{self._stream.path}: not as torch writes it: {type(error).__name__} at {error}"
            ) from error

    def metadata(self) -> dict[str, object]:
        """Return what the file says of itself."""
        return self._metadata

    def unreadable(self) -> TraceError:
        """Return the error for a file in which no event could be read."""
        return TraceError(f"{self._stream.path}: nothing was recorded in it")

    def _content(self) -> object:
        path = self._stream.path
        text = bytearray()
        for chunk in self._stream:
            text += chunk
            if len(text) > MAX_BYTES:
                raise TraceError(f"{path}: a pickle of more than {MAX_BYTES // GB} GB is not read")
        try:
            return _Plain(io.BytesIO(text)).load()
        except MemoryError:
            raise
        except Exception as error:
            raise TraceError(
                f"{path}: this pickle is not read: {error}",
                hint="basic types alone are, as torch's _dump_snapshot and _dump_nccl_trace write",
            ) from error

    def _known(self, content: object) -> Kind:
        if isinstance(content, dict):
            if "device_traces" in content:
                return _AllocatorHistory(content)
            if "entries" in content:
                return _FlightRecorder(content)
        raise TraceError(
            f"{self._stream.path}: a pickle that is neither an allocator's history nor a dump of a "
            "flight recorder"
        )


def _text(event: Mapping[str, Any]) -> bytes:
    """Return an event as JSON, its times from ns to µs with all of their digits."""
    times = {
        name: msgspec.Raw(b"%d.%03d" % divmod(event[name], NS_PER_US))
        for name in ("ts", "dur")
        if name in event
    }
    return msgspec.json.encode({**event, **times})


class _AllocatorHistory:
    """A snapshot of the caching allocator, with what it recorded on the way.

    Entries tell no totals: those at the end are in the segments, and go back from there. Blocks
    count until the device is done with them.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._segments: Sequence[Mapping[str, Any]] = content.get("segments", ())
        self._traces: Sequence[Sequence[Mapping[str, Any]]] = content["device_traces"]

    def metadata(self) -> dict[str, object]:
        return {"profile_memory": True}

    def events(self) -> Iterator[Mapping[str, Any]]:
        for device, entries in enumerate(self._traces):
            allocated, reserved = self._before(device, entries)
            for number, entry in enumerate(entries):
                size, action = entry["size"], entry["action"]
                reserved += _reserved(action) * size
                change = _active(action) * size
                if not change:
                    continue
                allocated += change
                at_us = entry.get("time_us", number)
                yield {
                    "ph": "i",
                    "cat": "cpu_instant_event",
                    "name": "[memory]",
                    "pid": 0,
                    "tid": device,
                    "ts": at_us * NS_PER_US,
                    "args": {
                        "Device Type": _CUDA,
                        "Device Id": device,
                        "Addr": entry["addr"],
                        "Bytes": change,
                        "Total Allocated": allocated,
                        "Total Reserved": reserved,
                        "Stream": entry.get("stream"),
                        **_place(entry.get("frames") or ()),
                    },
                }

    def _before(self, device: int, entries: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
        """Return what was in use and kept before the first entry, bytes."""
        mine = [one for one in self._segments if one.get("device", 0) == device]
        allocated = sum(
            block.get("requested_size", block["size"])
            for segment in mine
            for block in segment["blocks"]
            if block["state"].startswith("active")
        )
        reserved = sum(segment["total_size"] for segment in mine)
        for entry in entries:
            allocated -= _active(entry["action"]) * entry["size"]
            reserved -= _reserved(entry["action"]) * entry["size"]
        return allocated, reserved


def _active(action: str) -> int:
    return {"alloc": 1, "free_completed": -1}.get(action, 0)


def _reserved(action: str) -> int:
    return {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}.get(
        action, 0
    )


def _place(frames: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return where in the program an allocation was: innermost frames come first."""
    told = [f"{frame['filename']}:{frame['line']}: {frame['name']}" for frame in frames]
    found = {"Stack": ";".join(told)} if told else {}
    own = (
        text
        for text, frame in zip(told, frames, strict=True)
        if frame["filename"].endswith(".py") and "/torch/" not in frame["filename"]
    )
    ops = (_OP.search(frame["name"]) for frame in frames)
    line, op = next(own, None), next((one for one in ops if one), None)
    if line is not None:
        found["Line"] = line
    if op is not None:
        found["Op"] = f"aten::{op[1]}"
    return found


class _FlightRecorder:
    """The collectives of one rank, as its watchdog knew them."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._entries: Sequence[Mapping[str, Any]] = content["entries"]
        self._groups: Mapping[str, Mapping[str, str]] = content.get("pg_config") or {}

    def metadata(self) -> dict[str, object]:
        groups = [
            {
                "pg_name": name,
                "pg_desc": group.get("desc"),
                "ranks": json.loads(group.get("ranks") or "[]"),
            }
            for name, group in self._groups.items()
        ]
        return {"distributedInfo": {"pg_config": groups}}

    def events(self) -> Iterator[Mapping[str, Any]]:
        # A rank that called nothing is the one that others wait for.
        yield {"ph": "M", "name": "flight_recorder", "pid": 0, "tid": 0, "ts": 0}
        for entry in self._entries:
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
                **_place(frames),
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
