"""Reader of rocprofv3's databases (rocpd).

The format: the schema in ROCm/rocm-systems, projects/rocprofiler-sdk/source/share/
rocprofiler-sdk-rocpd, versions 3 (times in the rows) and 4 (times in a separate table, threads and
queues in table rocpd_track). All table names end in the id of their process; merged databases have
several such suffixes. Each row becomes the event that torch.profiler (Kineto) writes on AMD GPUs.
For example, HIP calls have category cuda_runtime. Times are ns of a monotonic clock, not Unix
times. A call and its GPU work share a stack_id in table rocpd_event. The stack ids and streams of
process n, counted from 0, start at n * 2^32.
"""

from __future__ import annotations

from typing import Any

from tracekit.errors import TraceError
from tracekit.ingest.formats.database_trace import Database, as_number, as_text, event_sql

CALL_CATEGORIES = {"MARKER": "user_annotation", "HIP": "cuda_runtime", "HSA": "cuda_driver"}
"""torch.profiler's category of a call, by the prefix of rocprofiler's category."""

_KERNELS = "rocpd_kernel_dispatch"

_VERSION = "schema_version"
_MAJOR_VERSIONS = ("3", "4")

_NEEDED = {
    "rocpd_string": ("id", "string"),
    "rocpd_event": ("id", "category_id", "stack_id"),
    "rocpd_info_process": ("id", "pid"),
    "rocpd_info_thread": ("id", "tid"),
    "rocpd_info_agent": ("id", "type", "type_index"),
    "rocpd_info_kernel_symbol": ("id", "kernel_name", "display_name"),
    "rocpd_region": ("name_id", "event_id"),
    _KERNELS: ("kernel_id", "event_id"),
    "rocpd_memory_copy": ("name_id", "size", "dst_agent_id", "src_agent_id", "event_id"),
}

_ROW_PLACE = ("start", "end", "pid", "tid", "agent_id", "queue_id", "stream_id")

_TRACK_PLACE = {"start": "b.value", "end": "f.value"} | {
    column: f"t.{column}" for column in ("pid", "tid", "agent_id", "queue_id", "stream_id")
}


class RocpdTrace:
    @staticmethod
    def is_of(database: Database) -> bool:
        return bool(_table_suffixes(database))

    def __init__(self, database: Database) -> None:
        self._shown = database.shown
        self._processes = [
            _Process(database, end, n) for n, end in enumerate(_table_suffixes(database))
        ]

    def events(self) -> list[str]:
        machines = {machine for process in self._processes for machine in process.machines()}
        if len(machines) > 1:
            raise TraceError(
                f"{self._shown}: merged from {len(machines)} machines whose devices "
                "have the same numbers",
                hint="open the original databases",
            )
        return [sql for process in self._processes for sql in process.events()]

    def metadata(self) -> dict[str, object]:
        return self._processes[0].metadata()


def _table_suffixes(database: Database) -> list[str]:
    return sorted(
        name.removeprefix(_KERNELS) for name in database.columns if name.startswith(_KERNELS)
    )


class _Process:
    def __init__(self, database: Database, end: str, number: int) -> None:
        self._database = database
        self._end = end
        self._base = number << 32
        self._version = next(
            (
                value
                for tag, value in self._rows("rocpd_metadata", "tag", "value")
                if tag == _VERSION
            ),
            "unknown",
        )
        called = f"{database.shown}: a database of rocprofv3 of schema {self._version!s:.40}"
        if str(self._version).partition(".")[0] not in _MAJOR_VERSIONS:
            raise TraceError(f"{called}, which is not supported", hint="supported: schemas 3 and 4")
        self._is_tracked = f"rocpd_timestamp{end}" in database.columns
        times = ("track_id", "start_id", "end_id") if self._is_tracked else ("start", "end", "pid")
        for table, needed in _NEEDED.items():
            is_timed = table in ("rocpd_region", _KERNELS, "rocpd_memory_copy")
            for column in (*needed, *(times if is_timed else ())):
                if column not in self._columns(table):
                    raise TraceError(f"{called} without the column {column} in table {table}")
        category = "rocpd_info_category"
        self._category_name = "c.name"
        if not self._columns(category):
            category, self._category_name = "rocpd_string", "c.string"
        self._category = f"{self._by_id(category)} AS c ON c.id = e.category_id"
        kernels = self._place(_KERNELS)
        streams = f"max({kernels['stream_id']}) > 0"
        ((has_streams,),) = database.rows(f"SELECT {streams} {self._from(_KERNELS)}")
        # If streams were not recorded, all rows have stream 0. Queues then separate concurrent
        # work.
        self._lane = "stream_id" if has_streams else "queue_id"

    def _name(self, table: str) -> str:
        quoted = f"{table}{self._end}".replace('"', '""')
        return f'"{quoted}"'

    def _by_id(self, table: str) -> str:
        """Return the SQL name of a table with one row per id, for joins."""
        return self._database.unique(f"{table}{self._end}", "id")

    def _columns(self, table: str) -> frozenset[str]:
        return self._database.columns.get(f"{table}{self._end}", frozenset())

    def _rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return the rows of a small table, or no rows if it lacks a column."""
        if not self._columns(table).issuperset(columns):
            return []
        sql = f"SELECT {', '.join(columns)} FROM {self._name(table)}"
        return self._database.rows(sql)

    def _place(self, table: str) -> dict[str, str]:
        """Return SQL for the times, process, thread, agent, queue, and stream of a row."""
        if self._is_tracked:
            return _TRACK_PLACE
        columns = self._columns(table)
        return {name: f'r."{name}"' if name in columns else "NULL" for name in _ROW_PLACE}

    def _from(self, table: str) -> str:
        """Return SQL that joins rows with event (e), category (c), process (p), and thread (h)."""
        place = self._place(table)
        track = ""
        if self._is_tracked:
            track = (
                f"LEFT JOIN {self._by_id('rocpd_track')} AS t ON t.id = r.track_id "
                f"LEFT JOIN {self._by_id('rocpd_timestamp')} AS b ON b.id = r.start_id "
                f"LEFT JOIN {self._by_id('rocpd_timestamp')} AS f ON f.id = r.end_id "
            )
        return (
            f"FROM {self._name(table)} AS r {track}"
            f"LEFT JOIN {self._by_id('rocpd_event')} AS e ON e.id = r.event_id "
            f"LEFT JOIN {self._category} "
            f"LEFT JOIN {self._by_id('rocpd_info_process')} AS p ON p.id = {place['pid']} "
            f"LEFT JOIN {self._by_id('rocpd_info_thread')} AS h ON h.id = {place['tid']} "
        )

    def _time(self, table: str) -> tuple[str, str]:
        place = self._place(table)
        return place["start"], f"({place['end']} - {place['start']})"

    def _work(self, table: str, category: str, name: str, joins: str, args: dict[str, str]) -> str:
        """Return the statement for GPU work; `joins` must provide its agent as `a`."""
        place = self._place(table)
        # Copies have no queue.
        lane = f"{self._base} + coalesce({place[self._lane]}, {place['stream_id']})"
        device = as_number("a.type_index")
        links = {
            "device": device,
            "stream": lane,
            "queue": as_number(place["queue_id"]),
            "correlation": f"nullif(e.stack_id, 0) + {self._base}",
        }
        event = event_sql(
            as_text(name), f"'{category}'", (device, lane), self._time(table), links | args
        )
        return f"SELECT {event} {self._from(table)} {joins}"

    def events(self) -> list[str]:
        agents = self._by_id("rocpd_info_agent")
        place = self._place(_KERNELS)
        sizes = {
            side: [as_number(f"r.{kind}_size_{axis}") for axis in "xyz"]
            for side, kind in (("grid", "grid"), ("block", "workgroup"))
        }
        # HSA grids count threads, HIP grids count blocks.
        blocks = [
            f"({all_} + {of_block} - 1) / {of_block}"
            for all_, of_block in zip(sizes["grid"], sizes["block"], strict=True)
        ]
        kernels = self._work(
            _KERNELS,
            "kernel",
            "coalesce(nullif(k.display_name, ''), k.kernel_name)",
            f"LEFT JOIN {agents} AS a ON a.id = {place['agent_id']} "
            f"LEFT JOIN {self._by_id('rocpd_info_kernel_symbol')} AS k ON k.id = r.kernel_id",
            {
                "grid": f"json_array({', '.join(blocks)})",
                "block": f"json_array({', '.join(sizes['block'])})",
            },
        )
        text = f"LEFT JOIN {self._by_id('rocpd_string')} AS s ON s.id = r.name_id"
        copies = self._work(
            "rocpd_memory_copy",
            "gpu_memcpy",
            "s.string",
            f"{text} LEFT JOIN {agents} AS d ON d.id = r.dst_agent_id AND d.type = 'GPU' "
            f"LEFT JOIN {agents} AS a ON a.id = coalesce(d.id, r.src_agent_id) AND a.type = 'GPU'",
            {"bytes": as_number("r.size")},
        )
        # The region of a roctx range is named after the API function; the event's message is the
        # name of the range.
        message = (
            "CASE WHEN typeof(e.extdata) = 'text' AND json_valid(e.extdata) "
            "THEN json_extract(e.extdata, '$.message') END"
        )
        kinds = " ".join(
            f"WHEN {self._category_name} LIKE '{kind}%' THEN '{category}'"
            for kind, category in CALL_CATEGORIES.items()
        )
        category = f"CASE {kinds} ELSE lower({self._category_name}) END"
        region = event_sql(
            as_text(f"coalesce({message}, s.string)"),
            category,
            (as_number("p.pid"), as_number("h.tid")),
            self._time("rocpd_region"),
            {
                "correlation": f"CASE WHEN {self._category_name} NOT LIKE 'MARKER%' "
                f"THEN nullif(e.stack_id, 0) + {self._base} END"
            },
        )
        return [kernels, copies, f"SELECT {region} {self._from('rocpd_region')} {text}"]

    def machines(self) -> list[object]:
        return [machine for (machine,) in self._rows("rocpd_info_node", "machine_id")]

    def metadata(self) -> dict[str, object]:
        columns = ("type", "type_index", "product_name", "model_name", "name")
        agents = self._rows("rocpd_info_agent", *columns)
        hosts = self._rows("rocpd_info_node", "hostname")
        return {
            "deviceProperties": [
                {"id": number, "name": next(filter(None, names), None)}
                for kind, number, *names in agents
                if kind == "GPU"
            ],
            "rocpd_schema_version": self._version,
            **({"host_name": hosts[0][0]} if hosts else {}),
        }
