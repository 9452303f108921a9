"""Reader of SQLite exports of Nsight Systems (nsys export --type sqlite).

The format: "SQLite Export Schema Reference" in NVIDIA's documentation of Nsight Systems, schemas up
to 3.x. Empty tables are missing. Newer columns may be missing, except those in :data:`_NEEDED`.
Times are ns since the session began. A row becomes the event that torch.profiler (Kineto) writes
for the same CUPTI record. CUDA's ids are unique only in a process, so n * 2^32 is added to the
correlation ids of process n, counted from 0. On each device that an earlier process also uses, it
is added to stream ids, too.

NVTX ranges are annotations; those named by torch.autograd.profiler.emit_nvtx (`aten::add,
seq = 5, op_id = 7, sizes = [[2]]`, torch/csrc/profiler/util.cpp) are ops.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tracekit.errors import TraceError
from tracekit.ingest.formats.database_trace import Database, as_number, as_text, event_sql

_NEEDED = {
    "StringIds": ("id", "value"),
    "CUPTI_ACTIVITY_KIND_KERNEL": ("start", "end", "deviceId", "streamId", "correlationId"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("start", "end", "deviceId", "streamId", "bytes", "copyKind"),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("start", "end", "deviceId", "streamId", "bytes"),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("start", "end", "deviceId", "streamId", "graphId"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId"),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("start", "end", "streamId"),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": ("correlationId", "streamId", "eventId"),
    "NVTX_EVENTS": ("start", "end", "eventType", "globalTid", "text"),
    "GPU_METRICS": ("timestamp", "typeId", "metricId", "value"),
    "TARGET_INFO_GPU_METRICS": ("typeId", "metricId", "metricName"),
}
"""Required columns of each table that exists."""

_LAST_MAJOR_VERSION = 3
"""Latest supported major version in EXPORT_SCHEMA_VERSION; a new one may break queries."""

_COPY_KINDS = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP", 11: "HtoD", 12: "DtoH", 13: "DtoD",
}  # fmt: skip
"""Kineto names for table ENUM_CUDA_MEMCPY_OPER; 11 and above are unified memory migrations."""

_MEMORY_KINDS = {
    0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static",
    6: "Managed Static",
}  # fmt: skip
"""Kineto names for table ENUM_CUDA_MEM_KIND."""

_SYNC_CALLS = {
    "StreamWaitEvent": "Stream Wait Event",
    "EventSynchronize": "Event Sync",
    "EventQuery": "Event Sync",
    "StreamSynchronize": "Stream Sync",
    "StreamQuery": "Stream Sync",
    "DeviceSynchronize": "Context Sync",
    "CtxSynchronize": "Context Sync",
}
"""Kineto's name of a synchronization, by the name of its call. Column syncType is ambiguous: up to
release 2026.1, its values are 1 less than in table ENUM_CUPTI_SYNC_TYPE."""

_RANGE_TYPES = "(59, 60, 70, 71)"
"""Push/pop and start/end ranges of NVTX and NVTXT in table ENUM_NSYS_EVENT_TYPE."""

_MARK_TYPES = "(34, 65)"
_DOMAIN_TYPE = 75

_PROCESS_BITS = "& ~0xFFFFFF"
"""Mask that converts a globalTid (8 bits hardware, 8 bits virtual machine, 24 bits process, 24 bits
thread) to a globalPid."""

_NO_STREAM = 0xFFFFFFFF

_FROM = "(coalesce(p.number, 0) << 32)"

_TIME = ("r.start", "(r.end - r.start)")

_STREAM = "r.streamId + coalesce(d.stream_base, 0)"

_THREAD = ("(r.globalTid >> 24 & 0xFFFFFF)", "(r.globalTid & 0xFFFFFF)")

_BY_THREAD = f"LEFT JOIN temp.process AS p ON p.id = r.globalTid {_PROCESS_BITS}"

_WORK_TABLES = tuple(
    f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
)

_OWN_TABLES = """
CREATE TEMP TABLE process (id INTEGER PRIMARY KEY, number INTEGER);
CREATE TEMP TABLE device (
    process INTEGER, id INTEGER, device INTEGER, stream_base INTEGER, PRIMARY KEY (process, id)
);
CREATE TEMP TABLE context (process INTEGER, id INTEGER, device INTEGER, PRIMARY KEY (process, id));
CREATE TEMP TABLE record (
    process INTEGER, event INTEGER, correlation INTEGER, sync_id INTEGER, stream INTEGER,
    PRIMARY KEY (process, event, correlation)
);
CREATE TEMP TABLE wait (
    process INTEGER, correlation INTEGER, kind TEXT, PRIMARY KEY (process, correlation)
);
CREATE TEMP TABLE wait_name (id PRIMARY KEY, kind TEXT);
CREATE TEMP TABLE domain (process INTEGER, id INTEGER, name TEXT, PRIMARY KEY (process, id));
"""
"""Temporary tables: processes numbered from 0; devices of each process with their machine-wide
numbers; the device of each context; event records; synchronization calls and their names; NVTX
domains."""


class NsysExport:
    @staticmethod
    def is_of(database: Database) -> bool:
        return "StringIds" in database.columns and any(
            name.startswith(("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS", "META_DATA_EXPORT"))
            for name in database.columns
        )

    def __init__(self, database: Database) -> None:
        self._database = database
        self._numbered = _numbered(database.columns)
        self._export_metadata = self._pairs("META_DATA_EXPORT")
        version = self._export_metadata.get("EXPORT_SCHEMA_VERSION", "")
        self._called = (
            f"{database.shown}: an export of Nsight Systems of schema {version[:40] or 'unknown'}"
        )
        major = re.match(r"\d{1,9}(?=\.|$)", version, re.ASCII)
        if version and not (major and int(major[0]) <= _LAST_MAJOR_VERSION):
            raise TraceError(
                f"{self._called}, which is not supported",
                hint=f"supported: schemas up to {_LAST_MAJOR_VERSION}.x; export it with an "
                "older nsys",
            )
        for table, needed in _NEEDED.items():
            columns = self._columns(table)
            lacking = [column for column in needed if columns and column not in columns]
            if lacking:
                raise TraceError(
                    f"{self._called} without the column {lacking[0]} in table {self._name(table)}",
                    hint="export it with another release of nsys",
                )

    def events(self) -> list[str]:
        self.prepare()
        return [
            *self.device_work(),
            *self.synchronisations(),
            *self.calls(),
            *self.overheads(),
            *self.ranges(),
            *self.names(),
            *self.gpu_metrics(),
        ]

    # -- tables and columns -----------------------------------------------------------------------

    def _name(self, table: str) -> str:
        """Return the name of a table, which may have a version suffix, as in NVTX_EVENTS_V2."""
        return (
            table if table in self._database.columns else self._numbered.get(table.lower(), table)
        )

    def _columns(self, table: str) -> frozenset[str]:
        return self._database.columns.get(self._name(table), frozenset())

    def _column(self, table: str, column: str) -> str:
        """Return SQL for a column of row r, or NULL if the table lacks the column."""
        return f"r.{column}" if column in self._columns(table) else "NULL"

    def _text(self, number: str) -> str:
        """Return the join with alias s that looks up the text of a string id."""
        return f"LEFT JOIN {self._database.unique('StringIds', 'id')} AS s ON s.id = {number}"

    def _pairs(self, table: str) -> dict[str, str]:
        """Return the values of a table by name; the last value of each name is used."""
        if not {"name", "value"} <= self._columns(table):
            return {}
        rows = self._database.rows(f"SELECT name, value FROM {self._name(table)}")
        return {str(name): str(value) for name, value in rows}

    # -- temporary tables ---------------------------------------------------------------------

    def prepare(self) -> None:
        self._database.make(_OWN_TABLES)
        work = [table for table in _WORK_TABLES if self._columns(table)]
        ids = {
            process
            for table, sql in (
                *((table, self._column(table, "globalPid")) for table in work),
                ("CUPTI_ACTIVITY_KIND_RUNTIME", f"r.globalTid {_PROCESS_BITS}"),
                ("NVTX_EVENTS", f"r.globalTid {_PROCESS_BITS}"),
            )
            for (process,) in self._distinct(table, sql)
            if isinstance(process, int)
        }
        numbers = {process: number for number, process in enumerate(sorted(ids))}
        self._process_count = len(numbers)
        self._database.fill("process", numbers.items())
        places = {
            place
            for table in work
            for place in self._distinct(
                table, self._process(table), self._column(table, "contextId"), "r.deviceId"
            )
        }
        rows = self._distinct("TARGET_INFO_CUDA_DEVICE", "r.pid", "r.cudaId", "r.gpuId")
        # Each process numbers its visible GPUs separately.
        gpus = {(pid, local): gpu for pid, local, gpu in rows}
        devices = {}
        for process, _, device in places:
            pid = process >> 24 & 0xFFFFFF if isinstance(process, int) else None
            devices[process, device] = gpus.get((pid, device), device)
        first: dict[object, int] = {}
        for (process, _), device in devices.items():
            first[device] = min(first.get(device, len(ids)), numbers.get(process, 0))
        self._database.fill(
            "device",
            (
                (process, local, device, 0 if number == first[device] else number << 32)
                for (process, local), device in devices.items()
                for number in [numbers.get(process, 0)]
            ),
        )
        self._database.fill("context", sorted(places, key=str))
        kinds = " ".join(
            f"WHEN s.value LIKE '%{call}%' THEN '{kind}'" for call, kind in _SYNC_CALLS.items()
        )
        self._database.make(
            "INSERT OR IGNORE INTO temp.wait_name "
            f"SELECT s.id, CASE {kinds} END AS kind FROM StringIds AS s WHERE kind IS NOT NULL"
        )
        self._fill_by_thread(
            "wait",
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            "JOIN temp.wait_name AS s ON s.id = r.nameId",
            "correlationId",
            "s.kind",
        )
        names = f"CASE r.eventType WHEN {_DOMAIN_TYPE} THEN coalesce(r.text, s.value) END"
        text = self._text(self._column("NVTX_EVENTS", "textId"))
        self._fill_by_thread("domain", "NVTX_EVENTS", text, "domainId", names)
        table = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
        id_columns = ("eventId", "correlationId", "eventSyncId", "streamId")
        columns = ", ".join(
            [self._process(table), *(self._column(table, name) for name in id_columns)]
        )
        for sql in self._select(table, columns):
            self._database.make(f"INSERT OR IGNORE INTO temp.record {sql}")

    def _fill_by_thread(self, own: str, table: str, joins: str, key: str, value: str) -> None:
        if self._columns(table):
            self._database.make(
                f"INSERT OR IGNORE INTO temp.{own} "
                f"SELECT r.globalTid {_PROCESS_BITS}, {self._column(table, key)}, {value} AS found "
                f"FROM {self._name(table)} AS r {joins} WHERE found IS NOT NULL"
            )

    def _distinct(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        if not self._columns(table):
            return []
        return self._database.rows(
            f"SELECT DISTINCT {', '.join(columns)} FROM {self._name(table)} AS r"
        )

    # -- events ------------------------------------------------------------------

    def _select(self, table: str, event: str, joins: str = "", where: str = "TRUE") -> list[str]:
        """Return the statement for the events of a table, if the table exists."""
        if not self._columns(table):
            return []
        return [f"SELECT {event} FROM {self._name(table)} AS r {joins} WHERE {where}"]

    def _process(self, table: str) -> str:
        """Return SQL for the process of a GPU or CUDA row; the first process if it is unknown."""
        global_pid = self._column(table, "globalPid")
        return f"coalesce({global_pid}, (SELECT min(id) FROM temp.process))"

    def _joins(self, table: str) -> str:
        """Return joins for the process number and the machine-wide device number."""
        context = self._column(table, "contextId")
        process = self._process(table)
        return (
            f"LEFT JOIN temp.process AS p ON p.id = {process} "
            f"LEFT JOIN temp.context AS c ON c.process = p.id AND c.id = {context} "
            f"LEFT JOIN temp.device AS d ON d.process = p.id AND d.id = coalesce(c.device, "
            f"{self._column(table, 'deviceId')})"
        )

    def _work(
        self, table: str, category: str, name: str, args: dict[str, str], joins: str = ""
    ) -> list[str]:
        device = as_number("coalesce(d.device, r.deviceId)")
        links = {
            "device": device,
            "context": as_number(self._column(table, "contextId")),
            "stream": _STREAM,
            "correlation": self._correlation(table),
            "graph node id": as_number(f"nullif({self._column(table, 'graphNodeId')}, 0)"),
            "graph id": as_number(f"nullif({self._column(table, 'graphId')}, 0)"),
        }
        event = event_sql(name, f"'{category}'", (device, _STREAM), _TIME, links | args)
        return self._select(table, event, f"{self._joins(table)} {joins}")

    def _correlation(self, table: str) -> str:
        return f"nullif({self._column(table, 'correlationId')}, 0) + {_FROM}"

    def device_work(self) -> list[str]:
        kernel, copy, memset = (
            f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET")
        )
        names = ("demangledName", "shortName", "mangledName")
        name_id = f"coalesce({', '.join(self._column(kernel, name) for name in names)})"
        shared = [self._column(kernel, f"{kind}SharedMemory") for kind in ("static", "dynamic")]
        direction = f"CASE r.copyKind {_cases(_COPY_KINDS)} ELSE 'Unknown' END"
        ends = [_memory_kind(self._column(copy, kind)) for kind in ("srcKind", "dstKind")]
        return [
            *self._work(
                kernel,
                "kernel",
                as_text("s.value"),
                {
                    "registers per thread": as_number(self._column(kernel, "registersPerThread")),
                    "shared memory": f"({shared[0]} + {shared[1]})",
                    "grid": self._triple(kernel, "grid"),
                    "block": self._triple(kernel, "block"),
                },
                self._text(name_id),
            ),
            *self._work(
                copy,
                "gpu_memcpy",
                f"'Memcpy ' || {direction} || CASE WHEN r.copyKind > 10 THEN ' (Unified)' "
                f"ELSE ' (' || {ends[0]} || ' -> ' || {ends[1]} || ')' END",
                {"bytes": as_number("r.bytes")},
            ),
            *self._work(
                memset,
                "gpu_memset",
                f"'Memset (' || {_memory_kind(self._column(memset, 'memKind'))} || ')'",
                {"bytes": as_number("r.bytes")},
            ),
            *self._work(
                "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "kernel", "'CUDA graph ' || r.graphId", {}
            ),
        ]

    def _triple(self, table: str, kind: str) -> str:
        sizes = [as_number(self._column(table, kind + axis)) for axis in "XYZ"]
        return f"CASE WHEN {sizes[0]} IS NOT NULL THEN json_array({', '.join(sizes)}) END"

    def synchronisations(self) -> list[str]:
        """Return the statement for synchronizations and the event records that they wait for.

        The device column may wrongly be 0, so the context determines the device.
        """
        table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
        stream = f"nullif(r.streamId, {_NO_STREAM}) + coalesce(d.stream_base, 0)"
        device = as_number(f"coalesce(d.device, {self._column(table, 'deviceId')})")
        kind = "coalesce(w.kind, 'Unknown Sync')"
        event = event_sql(
            kind,
            "'cuda_sync'",
            (device, f"coalesce({stream}, -1)"),
            _TIME,
            {
                "cuda_sync_kind": kind,
                "device": device,
                "context": as_number(self._column(table, "contextId")),
                "stream": stream,
                "correlation": self._correlation(table),
                "wait_on_stream": "e.stream + coalesce(d.stream_base, 0)",
                "wait_on_cuda_event_record_corr_id": f"e.correlation + {_FROM}",
                "wait_on_cuda_event_id": as_number(
                    f"nullif({self._column(table, 'eventId')}, {_NO_STREAM})"
                ),
            },
        )
        # The last record of the CUDA event before the wait. If both have a sync id, it must be the
        # same.
        record = (
            "LEFT JOIN temp.wait AS w ON w.process = p.id "
            f"AND w.correlation = {self._column(table, 'correlationId')} "
            "LEFT JOIN temp.record AS e ON e.rowid = (SELECT number FROM ("
            "SELECT o.rowid AS number, o.sync_id FROM temp.record AS o WHERE o.process = p.id "
            f"AND o.event = {self._column(table, 'eventId')} "
            f"AND o.correlation < {self._column(table, 'correlationId')} "
            "ORDER BY o.correlation DESC LIMIT 100) "
            f"WHERE coalesce(sync_id = nullif({self._column(table, 'eventSyncId')}, 0), TRUE) "
            "LIMIT 1)"
        )
        return self._select(table, event, f"{self._joins(table)} {record}")

    def calls(self) -> list[str]:
        """Return the statement for runtime and driver calls.

        Names of runtime calls end in a CUDA version (cudaLaunchKernel_v7000).
        """
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        called = as_text("s.value")
        bare = f"rtrim({called}, '0123456789')"
        name = (
            f"CASE WHEN s.value GLOB 'cuda*_v[0-9]*' AND {bare} GLOB '*_v' "
            f"THEN substr({bare}, 1, length({bare}) - 2) ELSE {called} END"
        )
        event = event_sql(
            name,
            "CASE WHEN s.value GLOB 'cuda*' THEN 'cuda_runtime' ELSE 'cuda_driver' END",
            _THREAD,
            _TIME,
            {"correlation": self._correlation(table)},
        )
        return self._select(table, event, f"{_BY_THREAD} {self._text('r.nameId')}")

    def overheads(self) -> list[str]:
        statements = []
        for table in ("CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD"):
            event = event_sql(as_text("s.value"), "'overhead'", _THREAD, _TIME, {})
            statements += self._select(table, event, self._text(self._column(table, "nameId")))
        return statements

    def ranges(self) -> list[str]:
        """Return statements for NVTX ranges and marks; a range without an end stays open."""
        table = "NVTX_EVENTS"
        text = as_text("coalesce(r.text, s.value)")
        # emit_nvtx: name, seq = 5, op_id = 7, sizes = [[2, 3]], input_op_ids = [...]
        seq, op, sizes, inputs = (
            f"instr({text}, ', {key} = ')" for key in ("seq", "op_id", "sizes", "input_op_ids")
        )
        end = f"coalesce(nullif({seq}, 0), nullif({op}, 0))"
        name = f"CASE WHEN {end} IS NULL THEN {text} ELSE substr({text}, 1, {end} - 1) END"
        is_op = f"({seq} > 0 OR ({op} > 0 AND instr({name}, '::') > 0))"
        dims = (
            f"substr({text}, {sizes} + 10, "
            f"CASE {inputs} WHEN 0 THEN length({text}) ELSE {inputs} - {sizes} - 10 END)"
        )
        number = f"CASE WHEN {seq} > 0 THEN CAST(substr({text}, {seq} + 8) AS INTEGER) END"
        args = {
            "domain": as_text("n.name"),
            "Sequence number": number,
            "Input Dims": f"CASE WHEN {sizes} > 0 AND json_valid({dims}) THEN json({dims}) END",
        }
        if self._process_count == 1:
            # The forward thread is unknown, so all backward nodes get the same one.
            args["Fwd thread id"] = (
                f"CASE WHEN {seq} > 0 THEN {name} LIKE 'autograd::engine::evaluate_function: %' END"
            )
        joins = (
            f"{_BY_THREAD} {self._text(self._column(table, 'textId'))} "
            "LEFT JOIN temp.domain AS n ON n.process = p.id "
            f"AND n.id = {self._column(table, 'domainId')}"
        )
        span = event_sql(
            name,
            f"CASE WHEN {is_op} THEN 'cpu_op' ELSE 'user_annotation' END",
            _THREAD,
            _TIME,
            args,
            "CASE WHEN r.end IS NULL THEN 'B' ELSE 'X' END",
        )
        mark = event_sql(
            text,
            "'user_annotation'",
            _THREAD,
            ("r.start", None),
            {"domain": as_text("n.name")},
            "'i'",
        )
        return [
            *self._select(table, span, joins, f"r.eventType IN {_RANGE_TYPES}"),
            *self._select(table, mark, joins, f"r.eventType IN {_MARK_TYPES}"),
        ]

    def names(self) -> list[str]:
        process = event_sql(
            "'process_name'", "NULL", ("r.globalPid >> 24 & 0xFFFFFF", "0"), None,
            {"name": as_text("r.name")}, "'M'",
        )  # fmt: skip
        thread = event_sql(
            "'thread_name'", "NULL", _THREAD, None, {"name": as_text("s.value")}, "'M'"
        )
        busy = " UNION ".join(
            f"SELECT globalTid FROM {self._name(table)}"
            for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS")
            if self._columns(table)
        )
        return [
            *self._select("PROCESSES", process, "JOIN temp.process AS p ON p.id = r.globalPid"),
            *self._select(
                "ThreadNames",
                thread,
                self._text("r.nameId"),
                f"r.globalTid IN ({busy or 'NULL'})",
            ),
        ]

    def gpu_metrics(self) -> list[str]:
        """Return the statement for hardware samples: one event per GPU and time.

        The lowest 8 bits of a typeId are the number of the GPU.
        """
        names = "TARGET_INFO_GPU_METRICS"
        if not self._columns(names):
            return []
        pid = "'GPU ' || (r.typeId & 0xFF) || ' Counters'"
        bare = event_sql("''", "'hardware_counters'", (pid, "0"), ("r.timestamp", None), {}, "'C'")
        values = f"json_group_object({as_text('m.metricName')}, {as_number('r.value')})"
        return self._select(
            "GPU_METRICS",
            f"rtrim({bare}, '}}') || ',\"args\":' || {values} || '}}'",
            f"JOIN {self._database.unique(self._name(names), 'typeId', 'metricId')} AS m "
            "ON m.typeId = r.typeId AND m.metricId = r.metricId",
            "TRUE GROUP BY r.timestamp, r.typeId",
        )

    # -- metadata --------------------------------------------------------------

    def metadata(self) -> dict[str, object]:
        """Return GPUs, host, session start, and versions, but no environment variables."""
        keys = {
            "id": "id",
            "name": "name",
            "totalGlobalMem": "totalMemory",
            "computeMajor": "computeMajor",
            "computeMinor": "computeMinor",
            "numSms": "smCount",
        }
        gpus = self._distinct(
            "TARGET_INFO_GPU",
            *(self._column("TARGET_INFO_GPU", column) for column in keys.values()),
        )
        result: dict[str, object] = {
            "deviceProperties": [dict(zip(keys, gpu, strict=True)) for gpu in gpus],
            "baseTimeNanoseconds": self._session_start_ns(),
            "host_name": self._pairs("TARGET_INFO_SYSTEM_ENV").get("Hostname"),
            "nsys_version": self._export_metadata.get("EXPORT_PRODUCT_VERSION"),
            "nsys_schema_version": self._export_metadata.get("EXPORT_SCHEMA_VERSION"),
        }
        return {key: value for key, value in result.items() if value is not None}

    def _session_start_ns(self) -> int | None:
        if self._export_metadata.get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
            return 0
        rows = self._distinct("TARGET_INFO_SESSION_START_TIME", "r.utcEpochNs")
        return rows[0][0] if rows else None


def _numbered(names: Iterable[str]) -> dict[str, str]:
    """Return the latest version of each table whose name ends in a version number."""
    result: dict[str, tuple[int, str]] = {}
    for name in names:
        match = re.fullmatch(r"(\w+)_V(\d{1,9})", name, re.IGNORECASE | re.ASCII)
        if match:
            kind = match[1].lower()
            result[kind] = max(result.get(kind, (0, "")), (int(match[2]), name))
    return {table: name for table, (_, name) in result.items()}


def _cases(names: Mapping[int, str]) -> str:
    return " ".join(f"WHEN {number} THEN '{name}'" for number, name in names.items())


def _memory_kind(column: str) -> str:
    return f"CASE {column} {_cases(_MEMORY_KINDS)} ELSE 'Unknown' END"
