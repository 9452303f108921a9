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

PID = EventColumn(
    "pid",
    "BIGINT",
    "process id; a negative stand-in for text ids (table thread)",
    "member",
    ("pid",),
    since=_FORMAT,
)
TID = EventColumn(
    "tid",
    "BIGINT",
    "thread id; a negative stand-in for text ids (table thread)",
    "member",
    ("tid",),
    since=_FORMAT,
)
TS = EventColumn(
    "ts_ns",
    "BIGINT",
    "start, ns; add trace.base_time_ns for time since the epoch",
    "member",
    ("ts",),
    since=_FORMAT + ", in µs",
)
DUR = EventColumn(
    "dur_ns", "BIGINT", "duration, ns", "member", ("dur",), since=_FORMAT + ", in µs; phase X"
)

LINKS = (
    EventColumn(
        "correlation",
        "BIGINT",
        "links a launch with its device events; NULL if none",
        "argument",
        ("correlation",),
        none=0,
        since=_KINETO,
    ),
    EventColumn(
        "external_id",
        "BIGINT",
        "links an op with its launches (External id)",
        "argument",
        ("External id", "external id"),
        since=_KINETO + "; device events and runtime calls there spell it external id",
    ),
    EventColumn(
        "stream",
        "BIGINT",
        "stream or queue of the device; not the display lane of replayed kernels",
        "argument",
        ("original_stream", "stream"),
        since=_KINETO + ", device events; original_stream in annotated graphs (torch 2.12)",
    ),
    EventColumn(
        "device",
        "BIGINT",
        "number of the device",
        "argument",
        ("device",),
        since=_KINETO + ", device events",
    ),
    EventColumn(
        "python_id", "BIGINT", "id of a Python call", "argument", ("Python id",), since=_PYTHON
    ),
    EventColumn(
        "python_parent_id",
        "BIGINT",
        "id of the calling Python call",
        "argument",
        ("Python parent id",),
        since=_PYTHON,
    ),
    EventColumn(
        "python_module_id",
        "BIGINT",
        "number of the nn.Module within its class",
        "argument",
        ("Python module id",),
        since=_PYTHON_MODULE,
    ),
    EventColumn(
        "sequence_number",
        "BIGINT",
        "links a forward op with its autograd node",
        "argument",
        ("Sequence number",),
        since=_AUTOGRAD,
    ),
    EventColumn(
        "forward_thread",
        "BIGINT",
        "profiler thread id of the forward op; 0 on that op itself",
        "argument",
        ("Fwd thread id",),
        since=_AUTOGRAD,
    ),
)
"""Columns for arguments that link events."""

ID = EventColumn(
    "id",
    "VARCHAR",
    "id of a flow, counter, or asynchronous span, as in the file",
    "member",
    ("id",),
    since=_FORMAT,
)
SCOPE = EventColumn(
    "scope",
    "VARCHAR",
    "scope of an instant (s), as in the file",
    "member",
    ("s",),
    since=_FORMAT,
)
BINDING = EventColumn(
    "binding",
    "VARCHAR",
    "binding point of a flow (bp), as in the file",
    "member",
    ("bp",),
    since=_FORMAT,
)
ARGS = EventColumn(
    "args",
    "JSON",
    "all arguments of the file, including those with columns",
    "member",
    ("args",),
    since=_FORMAT,
)
EXTRA = EventColumn(
    "extra",
    "JSON",
    "other members of the event; pid and tid given as text",
    "reader",
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
    EventColumn(
        "ph",
        "VARCHAR",
        "phase letter in the format (ph), as in the file",
        "member",
        ("ph",),
        since=_FORMAT,
    ),
    PID,
    TID,
    EventColumn(
        "category", "VARCHAR", "category (cat), as in the file", "member", ("cat",), since=_FORMAT
    ),
    EventColumn(
        "name",
        "VARCHAR",
        "name; empty if missing",
        "member",
        ("name",),
        since=_FORMAT,
    ),
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
    EventColumn(
        "address", "UBIGINT", "address of the block", "argument", ("Addr",), since=_MEMORY_LATER
    ),
    EventColumn(
        "bytes",
        "BIGINT",
        "size of the block, bytes; negative when freed",
        "argument",
        ("Bytes",),
        since=_MEMORY,
    ),
    EventColumn(
        "total_allocated_bytes",
        "BIGINT",
        "allocated on the device after the event, bytes",
        "argument",
        ("Total Allocated",),
        since=_MEMORY_LATER,
    ),
    EventColumn(
        "total_reserved_bytes",
        "BIGINT",
        "reserved on the device after the event, bytes",
        "argument",
        ("Total Reserved",),
        since=_MEMORY_LATER,
    ),
    EventColumn(
        "device_type",
        "BIGINT",
        "torch's number of the device type; 0 CPU, 1 CUDA",
        "argument",
        ("Device Type",),
        since=_MEMORY,
    ),
    EventColumn(
        "device_id", "BIGINT", "number of the device", "argument", ("Device Id",), since=_MEMORY
    ),
)
"""Columns of view memory, for arguments of allocator events that have no column in record."""

MEMBER_KEYS = tuple(
    key for column in EVENT_COLUMNS if column.source == "member" for key in column.keys
)
"""Members of an event that have a column."""
