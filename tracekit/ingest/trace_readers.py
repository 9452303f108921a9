"""Readers of trace formats, chosen by the first bytes of a file.

To add a format, write a :class:`TraceReader` and add it to :data:`FORMATS`. All other code uses
blocks of records, regardless of the format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from tracekit.errors import TraceError

if TYPE_CHECKING:
    from tracekit.ingest.byte_stream import ByteStream
    from tracekit.ingest.event_collector import EventRows
    from tracekit.ingest.faults import Faults


class Progress(Struct, frozen=True):
    """Progress of reading a file, in bytes on disk."""

    path: str
    bytes_read: int
    bytes_total: int
    event_count: int


class TraceReader(Protocol):
    """Reader of one file, created and used on a separate thread."""

    faults: Faults

    @property
    def event_count(self) -> int:
        """Number of events read so far, including unreadable ones."""
        ...

    @property
    def truncation(self) -> str | None:
        """Reason for a truncated trace, else None. It is known after the last block."""
        ...

    def blocks(self) -> Iterator[EventRows]:
        """Yield the rows of table `record` in file order, as blocks of columns.

        The columns are :data:`tracekit.ingest.event_reader.ROW_COLUMNS`. Times are integer ns since
        an origin that depends on the file.
        """
        ...

    def metadata(self) -> dict[str, object]:
        """Return the metadata of the file, with the keys of torch.profiler.

        Examples are `baseTimeNanoseconds`, `distributedInfo`, and `deviceProperties`. It is called
        once, after the last block.
        """
        ...

    def unreadable(self) -> TraceError:
        """Return the error for a file without readable events."""
        ...


class Format(NamedTuple):
    """Format of trace files; `pattern` matches the first plain bytes, at most 64."""

    name: str
    suffixes: tuple[str, ...]
    pattern: bytes
    reader: Callable[[ByteStream], TraceReader]


def _reader(module: str, name: str) -> Callable[[ByteStream], TraceReader]:
    """Return a function that creates a reader and imports its module on first use."""

    def begin(stream: ByteStream) -> TraceReader:
        reader: TraceReader = getattr(import_module(f"tracekit.ingest.formats.{module}"), name)(
            stream
        )
        return reader

    return begin


_chrome_trace = _reader("chrome_trace", "ChromeTraceReader")
_pickle = _reader("pickled_trace", "PickleReader")


def _database(stream: ByteStream) -> TraceReader:
    from tracekit.ingest.formats.database_trace import DatabaseReader
    from tracekit.ingest.formats.nsys_trace import NsysExport
    from tracekit.ingest.formats.rocpd_trace import RocpdTrace

    return DatabaseReader(stream, (NsysExport, RocpdTrace))


# The first plane: length, optional number, and name.
_XSPACE = (
    rb"\n[\x80-\xff]{0,9}[\0-\x7f](?:\x08[\x80-\xff]{0,9}[\0-\x7f])?\x12."
    rb"(?:/host:|/device:|Task Environment)"
)

_OTHER_THAN_XSPACE = rb"(?!" + _XSPACE + rb")"

_EXECUTION_TRACE = rb'\s*\{\s*"schema"\s*:\s*"\d'

_KNOWN_JSON = (
    # Flight recorder dump; torch sorts the members by name.
    rb'\s*\{\s*"(?:comm_lib_version|entries|nccl_comm_state|nccl_version|pg_config)"\s*:'
    rb'|\s*\{\s*"rocprofiler-sdk-tool"\s*:'
    # Memory timeline: time, action, bytes, category.
    rb"|\s*\[\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*[0-7]\s*\]"
)


def is_execution_trace(head: bytes) -> bool:
    """Return whether a file with these first bytes is from torch's ExecutionTraceObserver."""
    return re.match(_EXECUTION_TRACE, head) is not None


def _unread(what: str, hint: str) -> Callable[[ByteStream], TraceReader]:
    """Return a function that rejects files of a known format, with a hint on how to proceed."""

    def refuse(stream: ByteStream) -> TraceReader:
        raise TraceError(f"{stream.path}: {what}", hint=hint.replace("FILE", stream.path.name))

    return refuse


_foreign_perfetto = _unread(
    "a Perfetto trace that tracekit did not write cannot be read",
    (
        "convert it: traceconv json FILE trace.json (get.perfetto.dev/traceconv). "
        "torch.profiler writes JSON to a path that ends in .json, and rocprofv3 "
        "--output-format rocpd writes a database"
    ),
)
_execution_trace = _unread(
    "an execution trace (Chakra), which has no times",
    "open it together with the trace that was recorded with it: tracekit breakdown TRACE FILE",
)

FORMATS = [
    # The first packet that tracekit.export.perfetto writes.
    Format(
        "Perfetto trace",
        (".pftrace",),
        rb"\n\x04\x50\x01\x68\x03",
        _reader("perfetto_trace", "PerfettoReader"),
    ),
    # Opcode PROTO of protocols 2 to 5; docs.python.org/3/library/pickletools.html
    Format("pickle of torch", (".pickle", ".pkl"), rb"\x80[\x02-\x05]", _pickle),
    Format("JSON of torch or rocprofv3", (), _KNOWN_JSON, _pickle),
    # The tag of field 1 (protos/perfetto/trace/trace.proto) is also a line feed; control bytes
    # after it exclude text.
    Format("other Perfetto trace", (), _OTHER_THAN_XSPACE + rb"\n.*[\0-\x08]", _foreign_perfetto),
    Format("execution trace", (), _EXECUTION_TRACE, _execution_trace),
    Format(
        "log of NCCL's inspector",
        (),
        rb'\s*\{\s*"header"\s*:\s*\{\s*"id"\s*:',
        _reader("inspector_log", "InspectorReader"),
    ),
    # sqlite.org/fileformat.html
    Format("SQLite database", (".sqlite", ".db"), rb"SQLite format 3\0", _database),
    Format("Chrome trace", (".json", ".json.gz"), _OTHER_THAN_XSPACE, _chrome_trace),
    Format("XSpace", (".xplane.pb",), _XSPACE, _reader("xspace_trace", "XSpaceReader")),
]
"""Formats in the order in which they are checked. Unknown files are read as Chrome traces, whose
reader has the best error messages. If a folder has files of several formats, the last of these
formats is used. XSpace is last because it contains more than the Chrome trace derived from it."""

_REPORTS = (".nsys-rep", ".qdrep")
"""Suffixes of Nsight Systems reports, whose format is not published."""


def reader_of(stream: ByteStream) -> TraceReader:
    if stream.path.suffix in _REPORTS:
        raise TraceError(
            f"{stream.path}: an Nsight Systems report, which only nsys can read",
            hint=f"export it: nsys export --type sqlite {stream.path.name}",
        )
    head = stream.head()
    matches = (one.reader for one in FORMATS if re.match(one.pattern, head, re.DOTALL))
    return next(matches, _chrome_trace)(stream)
