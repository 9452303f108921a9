"""The tables of a store: every column with its type, unit and meaning.

This is the one description of the ingested tables. The loader creates them from it, ``.schema`` in
``tracekit sql`` prints it, and the reference in the README is made from it. Views and the tables
derived from these are described by the headers of their SQL files.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA_VERSION = 1
"""Raised with every change of a table; a store of another version is not opened."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: DuckDB type, and meaning with its unit where it has one."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """One ingested table: what a row is, and its columns in order."""

    name: str
    row: str
    columns: tuple[Column, ...]

    def create_sql(self) -> str:
        """Return the statement that creates the table, with its comments."""
        # zstd halves the store and is written faster than what DuckDB would choose for JSON.
        columns = ", ".join(
            f'"{column.name}" {column.type}'
            + (" USING COMPRESSION zstd" if column.type == "JSON" else "")
            for column in self.columns
        )
        return f"CREATE TABLE {self.name} ({columns})"


def _table(name: str, row: str, *columns: tuple[str, str, str]) -> Table:
    return Table(name, row, tuple(Column(*column) for column in columns))


_TRACE_ID = ("trace_id", "INTEGER", "the trace, as in table trace")
_EVENT_ID = ("event_id", "BIGINT", "position among the readable events of the file, from 0")
_THREAD = (
    ("pid", "BIGINT", "process id; a negative stand-in where the file has a text (table thread)"),
    ("tid", "BIGINT", "thread id; a negative stand-in where the file has a text (table thread)"),
)
_TS = ("ts_ns", "BIGINT", "start, ns; add trace.base_time_ns for time since the epoch")
_ARGS = ("args", "JSON", "all arguments, as in the file, those with columns of their own too")
_EXTRA = ("extra", "JSON", "members of the event that have no column; pid and tid given as text")

TABLES: tuple[Table, ...] = (
    _table(
        "store_info",
        "the store itself: one row",
        ("schema_version", "INTEGER", "version of these tables"),
        ("tracekit_version", "VARCHAR", "the tracekit that wrote the store"),
        ("queries_digest", "VARCHAR", "digest of the SQL files and rules that made the views"),
    ),
    _table(
        "trace",
        "one trace file",
        _TRACE_ID,
        ("path", "VARCHAR", "the file, as an absolute path"),
        ("file_name", "VARCHAR", "the file's name without folders"),
        ("rank", "INTEGER", "global rank, NULL where neither file nor file name tells it"),
        ("rank_source", "VARCHAR", "distributedInfo, file name or unknown"),
        ("world_size", "INTEGER", "number of ranks of the job"),
        ("backend", "VARCHAR", "communication backend of the job"),
        ("base_time_ns", "BIGINT", "what to add to ts_ns for ns since the epoch; 0 if absent"),
        ("display_time_unit", "VARCHAR", "as in the file; it does not change the values"),
        ("trace_uuid", "VARCHAR", "the profiler's own id of the trace"),
        ("host_name", "VARCHAR", "host that ran the process"),
        ("record_shapes", "BOOLEAN", "profiler flag: shapes of op arguments were recorded"),
        ("with_stack", "BOOLEAN", "profiler flag: Python frames were recorded"),
        ("with_modules", "BOOLEAN", "profiler flag: module hierarchy was asked for"),
        ("with_flops", "BOOLEAN", "profiler flag: FLOPs were estimated"),
        ("profile_memory", "BOOLEAN", "profiler flag: allocator events were recorded"),
        ("file_bytes", "BIGINT", "size of the file on disk, bytes"),
        ("text_bytes", "BIGINT", "size of the JSON text, bytes"),
        ("event_count", "BIGINT", "events of every kind that were read"),
        ("complete_count", "BIGINT", "rows of table event"),
        ("flow_count", "BIGINT", "rows of table flow"),
        ("instant_count", "BIGINT", "rows of table instant"),
        ("counter_count", "BIGINT", "rows of table counter"),
        ("memory_count", "BIGINT", "rows of table memory"),
        ("metadata_count", "BIGINT", "rows of table metadata"),
        ("rejected_count", "BIGINT", "rows of table rejected"),
        ("repaired_count", "BIGINT", "rows of table repaired"),
        ("is_truncated", "BOOLEAN", "the file ends before the trace does"),
        ("truncation_reason", "VARCHAR", "how that was seen"),
        ("first_ts_ns", "BIGINT", "earliest start of a complete event, ns"),
        ("last_end_ns", "BIGINT", "latest end of a complete event, ns"),
        ("metadata", "JSON", "all members of the trace object but its events"),
    ),
    _table(
        "device",
        "one accelerator that the file describes",
        _TRACE_ID,
        ("device_id", "BIGINT", "number of the device in the process"),
        ("name", "VARCHAR", "product name"),
        ("total_memory_bytes", "BIGINT", "memory, bytes"),
        ("compute_capability", "VARCHAR", "major.minor"),
        ("sm_count", "INTEGER", "streaming multiprocessors or compute units"),
        ("properties", "JSON", "all properties, as in the file"),
    ),
    _table(
        "process_group",
        "one group of ranks that the file describes",
        _TRACE_ID,
        ("pg_name", "VARCHAR", "name of the group"),
        ("pg_desc", "VARCHAR", "description of the group"),
        ("backend_config", "VARCHAR", "backends by device type"),
        ("pg_size", "INTEGER", "number of ranks in the group"),
        ("ranks", "JSON", "global ranks, as in the file"),
    ),
    _table(
        "thread",
        "one thread of events",
        _TRACE_ID,
        *_THREAD,
        ("pid_text", "VARCHAR", "process id as in the file"),
        ("tid_text", "VARCHAR", "thread id as in the file"),
        ("process_name", "VARCHAR", "name from the file's metadata events"),
        ("process_labels", "VARCHAR", "labels from the file's metadata events"),
        ("thread_name", "VARCHAR", "name from the file's metadata events"),
    ),
    _table(
        "event",
        "one complete event (a span; phase X)",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        ("category", "VARCHAR", "category, as in the file"),
        ("name", "VARCHAR", "name"),
        _TS,
        ("dur_ns", "BIGINT", "duration, ns"),
        ("correlation", "BIGINT", "links a launch and its device events; NULL for none"),
        ("external_id", "BIGINT", "links an op and what it launched (External id)"),
        ("stream", "BIGINT", "stream or queue of the device"),
        ("device", "BIGINT", "number of the device"),
        ("python_id", "BIGINT", "id of a Python call"),
        ("python_parent_id", "BIGINT", "id of the calling Python call"),
        ("python_module_id", "BIGINT", "number of the nn.Module among those of its class"),
        ("sequence_number", "BIGINT", "links a forward op and its autograd node"),
        ("forward_thread", "BIGINT", "profiler thread id of the forward op; 0 on that op itself"),
        _ARGS,
        _EXTRA,
    ),
    _table(
        "flow",
        "one end of an arrow (phases s, t, f)",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        ("phase", "VARCHAR", "s start, t step, f end"),
        ("flow_id", "BIGINT", "id that the ends of an arrow share within a category"),
        ("category", "VARCHAR", "category"),
        ("name", "VARCHAR", "name"),
        _TS,
        ("binding", "VARCHAR", "binding point (bp)"),
        _ARGS,
        _EXTRA,
    ),
    _table(
        "instant",
        "one mark (phases i, I, R, n) that is no allocator event",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        ("category", "VARCHAR", "category"),
        ("name", "VARCHAR", "name"),
        ("scope", "VARCHAR", "g global, p process, t thread"),
        _TS,
        _ARGS,
        _EXTRA,
    ),
    _table(
        "counter",
        "one sample of counters (phase C)",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        ("category", "VARCHAR", "category"),
        ("name", "VARCHAR", "name"),
        ("series_id", "VARCHAR", "id that tells counters of one name apart"),
        _TS,
        _ARGS,
        _EXTRA,
    ),
    _table(
        "memory",
        "one allocator event ([memory])",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        _TS,
        ("address", "UBIGINT", "address of the block"),
        ("bytes", "BIGINT", "size of the block, bytes; negative when freed"),
        ("total_allocated_bytes", "BIGINT", "allocated on the device afterwards, bytes"),
        ("total_reserved_bytes", "BIGINT", "reserved on the device afterwards, bytes"),
        ("device_type", "BIGINT", "torch's number of the device type; 0 CPU, 1 CUDA"),
        ("device_id", "BIGINT", "number of the device"),
        _ARGS,
        _EXTRA,
    ),
    _table(
        "metadata",
        "one metadata event (phase M)",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        ("name", "VARCHAR", "what it tells: process_name, thread_name, …"),
        _TS,
        _ARGS,
        _EXTRA,
    ),
    _table(
        "rejected",
        "one piece of the file that could not be read",
        _TRACE_ID,
        ("byte_offset", "BIGINT", "where it begins in the JSON text, bytes"),
        ("event_id", "BIGINT", "its position among the events, where it is well-formed JSON"),
        ("reason", "VARCHAR", "why it could not be read"),
        ("text", "VARCHAR", "its first 2048 bytes"),
    ),
    _table(
        "repaired",
        "one event that was read after mending its text",
        _TRACE_ID,
        _EVENT_ID,
        ("byte_offset", "BIGINT", "where it begins in the JSON text, bytes"),
        ("reason", "VARCHAR", "what was mended"),
    ),
)
