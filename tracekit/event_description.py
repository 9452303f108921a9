"""Maps the members and arguments of trace events to columns.

The format is "Trace Event Format" (Google, 2016), with arguments of torch.profiler (Kineto) and
similar writers. This mapping is defined only here. Table ``record`` and its views
(:mod:`tracekit.schema`), the C parser (native/), the reader of unusual events
(:mod:`tracekit.ingest.event_reader`), and the reference manual use it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Source = Literal["member", "argument", "reader"]


class EventColumn(Struct, frozen=True):
    """One column of table record.

    Attributes:
        name: name of the column.
        type: DuckDB type.
        meaning: description, with the unit.
        source: a member of the event, an argument (a member of ``args``), or the reader.
        keys: names of the member or argument; the first one that exists is used.
        none: number that means NULL.
        since: the writer, and the version that first wrote the member or argument.
    """

    name: str
    type: str
    meaning: str
    source: Source
    keys: tuple[str, ...] = ()
    none: int | None = None
    since: str = ""


class Kind(Struct, frozen=True):
    """A kind of event, with its own view of table record. Kind left_out has excluded records.

    Attributes:
        name: name of the kind and its view.
        phases: letters of the phases (``ph``) of its events.
        event_name: the required event name. None accepts all names that no other kind requires.
    """

    name: str
    phases: str
    event_name: str | None = None


KINDS = (
    Kind("event", "XBb"),
    Kind("flow", "stf"),
    Kind("instant", "iIRn"),
    Kind("counter", "C"),
    Kind("memory", "iIRn", "[memory]"),
    Kind("metadata", "M"),
    Kind("span_end", "Ee"),
    Kind("left_out", ""),
)
"""The kinds of record, in the order of the enum in column view_name."""

VIEW_NAME_TYPE = f"ENUM({', '.join(repr(kind.name) for kind in KINDS)})"
"""DuckDB type of column view_name."""

COMPLETE_PHASE = "X"
"""Phase of a span with a duration."""

BEGIN_PHASES = "Bb"
"""Phases of events that begin a span; another event ends it."""

MAX_TIME_US = 4 * 10**15
"""Latest time, µs, so that a start plus a duration fits into 64 bits of ns."""

MIN_TIME_US = -4 * 10**14
"""Earliest time, µs, so that twice the length of any window fits into 64 bits of ns."""

MAX_DUR_US = 10**12
"""Longest duration, µs (11 days), so that sums of thousands fit into 64 bits of ns."""

_FORMAT = "the format"
_KINETO = "Kineto, in old traces (2021)"
_AUTOGRAD = "torch.profiler since 2021, ops recorded by autograd"
_PYTHON = "torch.profiler with with_stack=True; not in traces of 2021"
_PYTHON_MODULE = "torch.profiler with with_stack=True, calls of nn.Module; not in traces of 2021"
_MEMORY = "torch.profiler with profile_memory=True, since 2021"
_MEMORY_LATER = "torch.profiler with profile_memory=True; not in traces of 2021"


def _member(name: str, type_name: str, meaning: str, key: str, since: str = _FORMAT) -> EventColumn:
    return EventColumn(name, type_name, meaning, "member", (key,), since=since)


def _argument(
    name: str,
    meaning: str,
    *keys: str,
    since: str,
    none: int | None = None,
    type_name: str = "BIGINT",
) -> EventColumn:
    return EventColumn(name, type_name, meaning, "argument", keys, none, since)


PID = _member("pid", "BIGINT", "process id; a negative stand-in for text ids (table thread)", "pid")
TID = _member("tid", "BIGINT", "thread id; a negative stand-in for text ids (table thread)", "tid")
TS = _member(
    "ts_ns",
    "BIGINT",
    "start, ns; add trace.base_time_ns for time since the epoch",
    "ts",
    _FORMAT + ", in µs",
)
DUR = _member("dur_ns", "BIGINT", "duration, ns", "dur", _FORMAT + ", in µs; phase X")

LINKS = (
    _argument(
        "correlation",
        "links a launch with its device events; NULL if none",
        "correlation",
        since=_KINETO,
        none=0,
    ),
    _argument(
        "external_id",
        "links an op with its launches (External id)",
        "External id",
        "external id",
        since=_KINETO + "; device events and runtime calls there spell it external id",
    ),
    _argument(
        "stream",
        "stream or queue of the device; not the display lane of replayed kernels",
        "original_stream",
        "stream",
        since=_KINETO + ", device events; original_stream in annotated graphs (torch 2.12)",
    ),
    _argument("device", "number of the device", "device", since=_KINETO + ", device events"),
    _argument("python_id", "id of a Python call", "Python id", since=_PYTHON),
    _argument(
        "python_parent_id", "id of the calling Python call", "Python parent id", since=_PYTHON
    ),
    _argument(
        "python_module_id",
        "number of the nn.Module within its class",
        "Python module id",
        since=_PYTHON_MODULE,
    ),
    _argument(
        "sequence_number",
        "links a forward op with its autograd node",
        "Sequence number",
        since=_AUTOGRAD,
    ),
    _argument(
        "forward_thread",
        "profiler thread id of the forward op; 0 on that op itself",
        "Fwd thread id",
        since=_AUTOGRAD,
    ),
)
"""Columns for arguments that link events."""

ID = _member("id", "VARCHAR", "id of a flow, counter, or asynchronous span, as in the file", "id")
SCOPE = _member("scope", "VARCHAR", "scope of an instant (s), as in the file", "s")
BINDING = _member("binding", "VARCHAR", "binding point of a flow (bp), as in the file", "bp")
ARGS = _member("args", "JSON", "all arguments of the file, including those with columns", "args")
EXTRA = EventColumn(
    "extra", "JSON", "other members of the event; pid and tid given as text", "reader"
)

EVENT_COLUMNS = (
    EventColumn(
        "event_id",
        "BIGINT",
        "position among all events of the file that are valid JSON, from 0; rejected events are "
        "counted",
        "reader",
    ),
    EventColumn(
        "view_name",
        VIEW_NAME_TYPE,
        "its view: event, flow, instant, counter, memory, metadata, span_end, or left_out",
        "reader",
    ),
    _member("ph", "VARCHAR", "phase letter in the format (ph), as in the file", "ph"),
    PID,
    TID,
    _member("category", "VARCHAR", "category (cat), as in the file", "cat"),
    _member("name", "VARCHAR", "name; empty if missing", "name"),
    TS,
    DUR,
    *LINKS,
    ID,
    SCOPE,
    BINDING,
    ARGS,
    EXTRA,
)
"""Columns of table record after trace_id."""

MEMORY_COLUMNS = (
    _argument("address", "address of the block", "Addr", since=_MEMORY_LATER, type_name="UBIGINT"),
    _argument("bytes", "size of the block, bytes; negative when freed", "Bytes", since=_MEMORY),
    _argument(
        "total_allocated_bytes",
        "allocated on the device after the event, bytes",
        "Total Allocated",
        since=_MEMORY_LATER,
    ),
    _argument(
        "total_reserved_bytes",
        "reserved on the device after the event, bytes",
        "Total Reserved",
        since=_MEMORY_LATER,
    ),
    _argument(
        "device_type",
        "torch's number of the device type; 0 CPU, 1 CUDA",
        "Device Type",
        since=_MEMORY,
    ),
    _argument("device_id", "number of the device", "Device Id", since=_MEMORY),
)
"""Columns of view memory, for arguments of allocator events that have no column in record."""

MEMBER_KEYS = tuple(
    key for column in EVENT_COLUMNS if column.source == "member" for key in column.keys
)
"""Members of an event that have a column."""
