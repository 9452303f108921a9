"""Readers of trace formats, chosen by the first bytes of a file.

To add a format, write a :class:`TraceReader` and add it to :data:`FORMATS`. No other code depends
on the format: engines, commands, and the loader use blocks of records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tracekit.errors import TraceError

if TYPE_CHECKING:
    from tracekit.ingest.byte_stream import ByteStream
    from tracekit.ingest.event_collector import EventRows
    from tracekit.ingest.faults import Faults


class TraceReader(Protocol):
    """Reader of one file, created and used on a separate thread."""

    faults: Faults

    @property
    def event_count(self) -> int:
        """Return the number of events so far, including unreadable ones."""
        ...

    @property
    def truncation(self) -> str | None:
        """Return why the trace counts as cut off, or None; known after the last block."""
        ...

    def blocks(self) -> Iterator[EventRows]:
        """Yield the records of the file, in order: the columns of table `record`.

        Their names and order are :data:`tracekit.ingest.event_reader.ROW_COLUMNS`; times are
        integer ns since an origin that depends on the file.
        """
        ...

    def metadata(self) -> dict[str, object]:
        """Return the metadata of the file, with the keys of torch.profiler.

        For example `baseTimeNanoseconds`, `distributedInfo`, and `deviceProperties`. Called once,
        after the last block.
        """
        ...

    def unreadable(self) -> TraceError:
        """Return the error for a file without readable events."""
        ...


class Format(NamedTuple):
    """Format of trace files; `matches` decides from the first plain bytes, at most 64."""

    name: str
    suffixes: tuple[str, ...]
    matches: Callable[[bytes], bool]
    reader: Callable[[ByteStream], TraceReader]


def _reader(module: str, name: str) -> Callable[[ByteStream], TraceReader]:
    """Return a reader whose module is imported on first use."""

    def begin(stream: ByteStream) -> TraceReader:
        reader: TraceReader = getattr(import_module(f"tracekit.ingest.{module}"), name)(stream)
        return reader

    return begin


_chrome_trace = _reader("chrome_trace", "ChromeTraceReader")
_perfetto_trace = _reader("perfetto_trace", "PerfettoReader")
_xspace = _reader("xspace_trace", "XSpaceReader")
_pickle = _reader("pickled_trace", "PickleReader")
_inspector_log = _reader("inspector_log", "InspectorReader")


def _database(stream: ByteStream) -> TraceReader:
    from tracekit.ingest.database_trace import DatabaseReader
    from tracekit.ingest.nsys_trace import NsysExport
    from tracekit.ingest.rocpd_trace import RocpdTrace

    return DatabaseReader(stream, (NsysExport, RocpdTrace))


def _is_database(head: bytes) -> bool:
    # sqlite.org/fileformat.html
    return head.startswith(b"SQLite format 3\0")


def _is_our_perfetto_trace(head: bytes) -> bool:
    # The first packet that tracekit.export.perfetto writes.
    return head.startswith(b"\x0a\x04\x50\x01\x68\x03")


_XSPACE = re.compile(
    # The first plane: length, optional number, and name.
    rb"\n[\x80-\xff]{0,9}[\0-\x7f](?:\x08[\x80-\xff]{0,9}[\0-\x7f])?\x12."
    rb"(?:/host:|/device:|Task Environment)",
    re.DOTALL,
)


def _is_xspace(head: bytes) -> bool:
    return _XSPACE.match(head) is not None


def _is_foreign_perfetto(head: bytes) -> bool:
    # The first byte is the tag of a field of type bytes, which is also a line feed; control bytes
    # after it exclude text. See protos/perfetto/trace/trace.proto.
    return not _is_xspace(head) and head[:1] == b"\n" and bool(set(head[1:]) & set(range(9)))


def is_execution_trace(head: bytes) -> bool:
    """Return whether a file is from torch's ExecutionTraceObserver, from its first bytes."""
    return re.match(rb'\s*\{\s*"schema"\s*:\s*"\d', head) is not None


def _unread(what: str, hint: str) -> Callable[[ByteStream], TraceReader]:
    """Return a reader that rejects files of a known format with a hint on what to do instead."""

    def refuse(stream: ByteStream) -> TraceReader:
        raise TraceError(f"{stream.path}: {what}", hint=hint.replace("FILE", stream.path.name))

    return refuse


_FOREIGN_PERFETTO = _unread(
    "a Perfetto trace that tracekit did not write cannot be read",
    (
        "convert it: traceconv json FILE trace.json (get.perfetto.dev/traceconv). "
        "torch.profiler writes JSON to a path that ends in .json, and rocprofv3 "
        "--output-format rocpd writes a database"
    ),
)
_EXECUTION_TRACE = _unread(
    "an execution trace (Chakra), which has no times",
    "open it together with the trace that was recorded with it: tracekit breakdown TRACE FILE",
)


def _is_pickle(head: bytes) -> bool:
    # Opcode PROTO of protocols 2 to 5; docs.python.org/3/library/pickletools.html
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


_KNOWN_JSON = re.compile(
    # Flight recorder dump; torch sorts the members by name.
    rb'\s*\{\s*"(?:comm_lib_version|entries|nccl_comm_state|nccl_version|pg_config)"\s*:'
    rb'|\s*\{\s*"rocprofiler-sdk-tool"\s*:'
    # Memory timeline: time, action, bytes, category.
    rb"|\s*\[\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*[0-7]\s*\]"
)


def _is_known_json(head: bytes) -> bool:
    return _KNOWN_JSON.match(head) is not None


def _is_inspector_log(head: bytes) -> bool:
    return re.match(rb'\s*\{\s*"header"\s*:\s*\{\s*"id"\s*:', head) is not None


FORMATS = [
    Format("Perfetto trace", (".pftrace",), _is_our_perfetto_trace, _perfetto_trace),
    Format("pickle of torch", (".pickle", ".pkl"), _is_pickle, _pickle),
    Format("JSON of torch or rocprofv3", (), _is_known_json, _pickle),
    Format("other Perfetto trace", (), _is_foreign_perfetto, _FOREIGN_PERFETTO),
    Format("execution trace", (), is_execution_trace, _EXECUTION_TRACE),
    Format("log of NCCL's inspector", (), _is_inspector_log, _inspector_log),
    Format("SQLite database", (".sqlite", ".db"), _is_database, _database),
    Format("Chrome trace", (".json", ".json.gz"), lambda head: not _is_xspace(head), _chrome_trace),
    Format("XSpace", (".xplane.pb",), _is_xspace, _xspace),
]
"""Formats in the order in which they are checked. Unknown files are read as Chrome traces, whose
reader has the best error messages. If a folder has several formats, the last one is used: an XSpace
contains more than the Chrome trace derived from it."""

_REPORTS = (".nsys-rep", ".qdrep")
"""Suffixes of Nsight Systems reports, whose format is not published."""


def reader_of(stream: ByteStream) -> TraceReader:
    if stream.path.suffix in _REPORTS:
        raise TraceError(
            f"{stream.path}: an Nsight Systems report, which only nsys can read",
            hint=f"export it: nsys export --type sqlite {stream.path.name}",
        )
    head = stream.head()
    return next((one.reader for one in FORMATS if one.matches(head)), _chrome_trace)(stream)
