"""What a trace event may say, and where it goes: the one description of an event.

The format: "Trace Event Format" (Google, 2016), with the arguments that torch.profiler (Kineto) and
those who write like it add. From here come table ``record`` and its views
(:mod:`tracekit.schema`), what the parser in C (native/) and the reader of odd events
(:mod:`tracekit.ingest.event_reader`) read, and the section of the manual's reference that shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["member", "argument", "reader"]


@dataclass(frozen=True, slots=True)
class EventColumn:
    """One column of table record.

    Attributes:
        name: of the column.
        type: DuckDB type.
        meaning: with its unit where it has one.
        source: a member of the event, one of its arguments (members of ``args``), or the reader.
        keys: names of the member or argument; where the first is not given, the next one counts.
        none: the number by which the file says that there is none; the column is NULL then.
        since: who writes it, and since when.
    """

    name: str
    type: str
    meaning: str
    source: Source
    keys: tuple[str, ...] = ()
    none: int | None = None
    since: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of event, which is a view of table record; no event of a file is of kind left_out.

    Attributes:
        name: of the kind and the view.
        phases: phases (``ph``) of such events, a letter each.
        event_name: only events of this name; None for all that no other kind takes.
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
"""The kinds of record, in the order of the type of its column view_name."""

VIEW_NAME_TYPE = f"ENUM({', '.join(repr(kind.name) for kind in KINDS)})"
"""DuckDB's type of the column view_name."""

COMPLETE_PHASE = "X"
"""The phase of a span that says how long it took."""

BEGIN_PHASES = "Bb"
"""The phases of a span that lasts until its end, which is another event."""

MAX_TIME_US = 4 * 10**15
"""Times beyond are refused, µs: a start and a duration must add up within 64 bits of ns."""

MIN_TIME_US = -4 * 10**14
"""Times before are refused too, µs: twice the length of any window must stay within 64 bits."""

MAX_DUR_US = 10**12
"""Longer durations (11 days) are refused, µs: sums of thousands must stay within 64 bits."""

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
        "number of the nn.Module among those of its class",
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
"""The columns of arguments that link events."""

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
        "position among the well-formed events of the file, from 0, including rejected ones",
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
"""The columns of table record, behind trace_id."""

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
"""What view memory takes from the arguments of an allocator event, which have no columns."""

MEMBER_KEYS = tuple(
    key for column in EVENT_COLUMNS if column.source == "member" for key in column.keys
)
"""The members of an event that have columns."""
