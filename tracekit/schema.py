"""The tables of a store: every column with its type, unit and meaning.

This is the one description of the ingested tables. The loader creates them from it, ``.schema`` in
``tracekit sql`` prints it, and a page of the manual's reference is made from it. Views and the
tables derived from these are described by the headers of their SQL files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracekit.event_description import (
    ARGS,
    DUR,
    EVENT_COLUMNS,
    EXTRA,
    LINKS,
    MEMORY_COLUMNS,
    PID,
    TID,
    TS,
    EventColumn,
)

SCHEMA_VERSION = 22
"""Raised with every change of a table; a store of another version is not opened."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: DuckDB type, and meaning with its unit where it has one."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """One ingested table: what a row is, and its columns in order.

    Where `view_name` is given, it is a view: the rows of table `record` of that `view_name`, each
    column by the expression in `sources` that has its name, else by the column of its name.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    view_name: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    def create_sql(self) -> str:
        """Return the statement that creates the table or view."""
        if self.view_name is not None:
            picked = ", ".join(
                f'{self.sources[column.name]} AS "{column.name}"'
                if column.name in self.sources
                else f'"{column.name}"'
                for column in self.columns
            )
            return (
                f"CREATE VIEW {self.name} AS SELECT {picked} FROM record "
                f"WHERE view_name = '{self.view_name}'"
            )
        # zstd halves the store and is written faster than what DuckDB would choose for JSON; of
        # column extra, nearly always NULL, it would make half a MB for each group of rows.
        zstd = " USING COMPRESSION zstd"
        columns = ", ".join(
            f'"{column.name}" {column.type}'
            f"{zstd if column.type == 'JSON' and column.name != _EXTRA[0] else ''}"
            for column in self.columns
        )
        return f"CREATE TABLE {self.name} ({columns})"


def _table(name: str, row: str, *columns: tuple[str, str, str]) -> Table:
    return Table(name, row, tuple(Column(*column) for column in columns))


def _view(
    name: str, row: str, *columns: tuple[str, str, str], sources: Mapping[str, str] | None = None
) -> Table:
    return Table(name, row, tuple(Column(*column) for column in columns), name, sources or {})


def _described(*columns: EventColumn) -> tuple[tuple[str, str, str], ...]:
    return tuple((column.name, column.type, column.meaning) for column in columns)


_TRACE_ID = ("trace_id", "INTEGER", "the trace, as in table trace")
_EVENT_ID, *_ = _described(*EVENT_COLUMNS)
_THREAD = _described(PID, TID)
_TS, _DUR, _ARGS, _EXTRA = _described(TS, DUR, ARGS, EXTRA)

_RUN_ID = ("run_id", "VARCHAR", "the run, as in table run")

RUN_TABLES: tuple[Table, ...] = (
    _table(
        "run",
        "one run: its run.json, which the collectors wrote",
        ("run_id", "VARCHAR", "as in run.json; with #2 and so on where several runs say the same"),
        ("path", "VARCHAR", "the run's folder, as an absolute path"),
        ("folder_name", "VARCHAR", "name of that folder"),
        ("manifest_version", "INTEGER", "version of run.json (schema_version)"),
        ("tracekit_version", "VARCHAR", "the tracekit that ran it"),
        ("created_at", "VARCHAR", "when, as in run.json"),
        ("stage", "VARCHAR", "pretrain, finetune, serve, bench or custom; NULL if unreadable"),
        ("engine", "VARCHAR", "training or serving engine"),
        ("outcome", "VARCHAR", "ok, incomplete, oom, failed, or unreadable: run.json is of no use"),
        ("reason", "VARCHAR", "why the outcome is not ok"),
        ("command", "VARCHAR[]", "command line"),
        ("opt", "VARCHAR", "optimizations, in their canonical form"),
        ("model", "VARCHAR", "name of the model"),
        ("model_class", "VARCHAR", "its class"),
        ("parameter_count", "BIGINT", "parameters of the whole model"),
        ("trainable_parameter_count", "BIGINT", "of these, trained"),
        ("layer_count", "INTEGER", "layers"),
        ("model_config", "JSON", "configuration, as the framework states it"),
        ("batch_size", "INTEGER", "sequences in a step of one data-parallel rank"),
        ("sequence_length", "INTEGER", "tokens of a sequence"),
        ("precision", "VARCHAR", "number type of the compute"),
        ("seed", "BIGINT", "seed"),
        ("attention_backend", "VARCHAR", "which attention ran"),
        ("attention_reason", "VARCHAR", "why this one"),
        ("world_size", "INTEGER", "ranks"),
        ("data_size", "INTEGER", "data-parallel size; NULL if unknown, and figures are of a rank"),
        ("tensor_size", "INTEGER", "tensor-parallel size"),
        ("pipeline_size", "INTEGER", "pipeline-parallel size"),
        ("node_count", "INTEGER", "machines"),
        ("warmup_step_count", "INTEGER", "steps before the measured ones"),
        ("measured_step_count", "INTEGER", "measured steps of each repeat"),
        ("repeat_count", "INTEGER", "repeats that were asked for"),
        ("profiled_step_count", "INTEGER", "profiled steps"),
        ("tokens_per_s_mean", "DOUBLE", "tokens/s of all ranks, mean of the repeats"),
        ("tokens_per_s_std", "DOUBLE", "its sample standard deviation; NULL for one repeat"),
        ("peak_device_allocated_bytes", "BIGINT", "of the rank that allocated most, bytes"),
        ("peak_device_reserved_bytes", "BIGINT", "of the rank that reserved most, bytes"),
        ("peak_host_bytes", "BIGINT", "of the rank that held most host memory, bytes"),
        ("peak_memory", "JSON", "peak memory of every rank"),
        ("plain_step_ns", "BIGINT", "median step without ranges and profiler, rank 0, ns"),
        ("plain_step_low_ns", "BIGINT", "10th percentile of these steps, ns"),
        ("plain_step_high_ns", "BIGINT", "90th percentile of these steps, ns"),
        ("plain_after_count", "INTEGER", "of these steps, measured after the profiled ones"),
        ("plain_phase_ns", "JSON", "median time of each phase in these steps, where known, ns"),
        ("ranges_step_ns", "BIGINT", "median step with ranges, rank 0, ns"),
        ("profiled_step_ns", "BIGINT", "median step with ranges and profiler, rank 0, ns"),
        ("light_step_ns", "BIGINT", "median step with the device's work alone recorded, ns"),
        ("export_stall_ns", "BIGINT", "how long a program stood still for its trace, ns"),
        ("job_id", "VARCHAR", "what the folders of one job have in common"),
        ("exit_code", "INTEGER", "of a program of the user's; 128 + n for signal n"),
        ("gradient_accumulation", "INTEGER", "backward passes in a step"),
        ("ranks", "JSON", "ranks of a recorded program that the run holds, and what each left"),
        ("host_name", "VARCHAR", "host"),
        ("platform", "VARCHAR", "operating system"),
        ("python_version", "VARCHAR", "version of Python"),
        ("processor", "VARCHAR", "processor"),
        ("core_count", "INTEGER", "cores"),
        ("thread_count", "INTEGER", "host threads of arithmetic of each rank; NULL if not known"),
        ("memory_bytes", "BIGINT", "host memory, bytes"),
        ("devices", "VARCHAR[]", "accelerators by name; empty on a CPU-only machine"),
        ("device_memory_bytes", "BIGINT", "memory of one, bytes"),
        ("driver_version", "VARCHAR", "version of the driver"),
        ("packages", "JSON", "package versions by name"),
        ("variables", "JSON", "environment variables that matter"),
        ("load_request_count", "BIGINT", "serving: requests of the load, without warm-up"),
        ("load_prompt_token_count", "BIGINT", "tokens of a prompt that were asked for"),
        ("load_max_new_token_count", "BIGINT", "tokens of an answer that were asked for"),
        ("load_arrival", "VARCHAR", "burst, poisson:RATE or constant:RATE (requests/s)"),
        ("load_concurrency", "INTEGER", "requests in flight at most; NULL for no limit"),
        ("load_warmup_count", "BIGINT", "warm-up requests"),
        ("load_retry_count", "INTEGER", "retries that a request may have"),
        ("load_start_unix_ns", "BIGINT", "what to add to times of table request, ns"),
        ("load_wall_ns", "BIGINT", "how long the load took, ns"),
        ("load_ok_count", "BIGINT", "requests that succeeded, as the client counted"),
        ("load_failed_count", "BIGINT", "requests that did not"),
        ("load_prompt_source", "VARCHAR", "how the length of prompts is known"),
        ("load_window_start_ns", "BIGINT", "start of the profiled window, since the load's, ns"),
        ("load_window_end_ns", "BIGINT", "end of the profiled window, since the load's start, ns"),
        ("load_profile_note", "VARCHAR", "what is to be said of the profile"),
        ("load_lost_ns", "BIGINT", "when an incomplete load ended, since its start, ns"),
        ("load_server", "JSON", "what the server says of itself"),
        ("traces", "VARCHAR[]", "trace files of the run"),
        ("light_traces", "VARCHAR[]", "traces of the devices alone, which are in no table"),
        ("missing_trace_count", "INTEGER", "of these, not in the folder"),
        ("notes", "VARCHAR[]", "what else is to be said"),
        ("extra", "JSON", "what the engine keeps besides"),
        ("request_count", "BIGINT", "rows of table request"),
        ("benchmark_count", "BIGINT", "rows of table benchmark"),
        (
            "rejected_count",
            "BIGINT",
            "lines of requests.jsonl and benchmarks.jsonl in table rejected",
        ),
    ),
    _table(
        "run_repeat",
        "one repeat of a run's measured steps, without profiler and hooks",
        _RUN_ID,
        ("repeat", "INTEGER", "number of the repeat, from 0"),
        ("tokens_per_s", "DOUBLE", "tokens of all ranks over the slowest rank's time, tokens/s"),
        ("wall_ns", "BIGINT", "time of the measured steps, ns"),
        ("step_ns", "BIGINT[]", "time of each step on rank 0, ns"),
        ("final_loss", "DOUBLE", "loss of the last step"),
    ),
    _table(
        "request",
        "serving: one request; times count from run.load_start_unix_ns",
        _RUN_ID,
        ("request_id", "BIGINT", "number of the request in its run"),
        ("engine_request_id", "VARCHAR", "its name in the engine"),
        ("is_warmup", "BOOLEAN", "sent to warm up; in no figure"),
        (
            "is_profiled",
            "BOOLEAN",
            "sent while the profiler ran, in a load of its own; in no figure",
        ),
        ("outcome", "VARCHAR", "ok, timeout, refused, http_error, broken_stream, bad_response, …"),
        ("reason", "VARCHAR", "why the outcome is not ok"),
        ("http_status", "INTEGER", "HTTP status"),
        ("attempt_count", "INTEGER", "times that it was sent"),
        ("prompt_token_count", "BIGINT", "tokens of the prompt"),
        ("prompt_source", "VARCHAR", "how that is known: token_ids, text or usage"),
        ("output_token_count", "BIGINT", "tokens of the answer"),
        ("arrival_ns", "BIGINT", "when the schedule wanted it sent, ns"),
        ("sent_ns", "BIGINT", "when it was sent, ns"),
        ("first_token_ns", "BIGINT", "when its first token came, ns"),
        ("end_ns", "BIGINT", "when it ended, ns"),
        ("token_ns", "BIGINT[]", "when each token, or chunk of tokens, came, ns"),
        ("token_counts", "BIGINT[]", "tokens of each chunk; NULL if each is one"),
        ("extra", "JSON", "members of the line that have no column"),
    ),
    _table(
        "request_step",
        "serving: a span of engine steps (tk/step/<n>) that served a request",
        _RUN_ID,
        ("request_id", "BIGINT", "the request, as in table request"),
        ("first_step", "BIGINT", "number of the first step"),
        ("last_step", "BIGINT", "number of the last step"),
    ),
    _table(
        "benchmark",
        "bench: one measured point, a line of benchmarks.jsonl; times of one call, no rates",
        _RUN_ID,
        ("bench_id", "BIGINT", "number of the point in its run, in the order measured"),
        ("family", "VARCHAR", "gemm, memcpy, collective or launch"),
        ("op", "VARCHAR", "mm, h2d, all_reduce, empty_kernel, …"),
        ("series", "VARCHAR", "curve that the point belongs to: N4096_K4096, llama2-7b/qkv, …"),
        ("device", "VARCHAR", "cpu or cuda:0; of a collective that of rank 0"),
        ("device_name", "VARCHAR", "product, as the driver or the processor names it"),
        ("unit_count", "INTEGER", "multiprocessors or compute units of the device; NULL of a CPU"),
        ("thread_count", "INTEGER", "host threads of arithmetic"),
        ("dtype", "VARCHAR", "type of the operands, as in devices.toml; NULL for mere bytes"),
        ("m", "BIGINT", "rows of a product, of one of its groups"),
        ("n", "BIGINT", "its columns"),
        ("k", "BIGINT", "length of its sums"),
        ("batch", "BIGINT", "products in one call"),
        ("memory", "VARCHAR", "of a copy: host memory, pinned or pageable"),
        (
            "message_bytes",
            "BIGINT",
            "bytes copied; of a collective what each rank has in all: of an all-gather its output",
        ),
        ("group_size", "INTEGER", "of a collective: ranks"),
        ("backend", "VARCHAR", "of a collective: nccl or gloo"),
        ("timer", "VARCHAR", "cuda_event: time on the device; wall_clock: time of the host"),
        ("warmup_count", "BIGINT", "calls before the first sample"),
        ("repeat_count", "BIGINT", "samples"),
        ("inner_count", "BIGINT", "calls in one sample"),
        (
            "sample_ns",
            "DOUBLE[]",
            "time of one call in each sample, ns; of a collective the slowest rank's",
        ),
        ("median_ns", "DOUBLE", "median of sample_ns, ns"),
        ("low_ns", "DOUBLE", "lower end of its confidence interval, ns; NULL for few samples"),
        ("high_ns", "DOUBLE", "upper end, ns"),
        ("min_ns", "DOUBLE", "shortest sample, ns"),
        ("max_ns", "DOUBLE", "longest sample, ns"),
        ("confidence_pct", "DOUBLE", "least confidence of the interval, 0 to 100"),
        ("clock_hz", "BIGINT", "clock of the multiprocessors right after, as NVML tells"),
        ("memory_clock_hz", "BIGINT", "clock of the device's memory right after"),
        ("power_w", "DOUBLE", "power right after, W; newer devices give a mean of the last second"),
        ("temperature_c", "DOUBLE", "temperature right after, degrees Celsius"),
        ("outcome", "VARCHAR", "ok; else unsupported, oom or failed, and there are no times"),
        ("reason", "VARCHAR", "why the outcome is not ok"),
        ("extra", "JSON", "members of the line that have no column"),
    ),
    _table(
        "named_peak",
        "what a device of table benchmark can do at most, by its data sheet, for one type",
        ("device_name", "VARCHAR", "as in table benchmark"),
        ("unit_count", "INTEGER", "as in table benchmark"),
        ("product", "VARCHAR", "the product that this is"),
        ("dtype", "VARCHAR", "type of number, as bf16"),
        ("flop_per_s", "DOUBLE", "dense peak for the type, FLOP/s"),
        ("memory_bytes_per_s", "DOUBLE", "bandwidth of its memory, bytes/s"),
        ("source", "VARCHAR", "document of the vendor that says so"),
    ),
    _table(
        "system_sample",
        "one value that a tool of the system sampled: of power.csv of a run folder, or of a file "
        "given beside a trace",
        ("path", "VARCHAR", "the file"),
        ("folder", "VARCHAR", "the run folder that it lies in; NULL: it is of all traces"),
        ("device", "VARCHAR", "number of the device, or cpu; NULL where there is no such column"),
        ("name", "VARCHAR", "name of the column, in small letters"),
        ("unit", "VARCHAR", "W, J, %, … as in the file, but mW and mJ as W and J; NULL if none"),
        ("at_ns", "BIGINT", "when, ns since the epoch"),
        ("clock", "VARCHAR", "UTC, or local: of the zone of the machine that reads the file"),
        ("value", "DOUBLE", "value"),
    ),
)
"""The tables of run folders; empty where the traces lie in none."""

TABLES: tuple[Table, ...] = (
    _table(
        "store_info",
        "the store itself: one row",
        ("schema_version", "INTEGER", "version of these tables"),
        ("tracekit_version", "VARCHAR", "the tracekit that wrote the store"),
        ("made_by", "VARCHAR", "digest of the code, SQL files and rules that made its rows"),
    ),
    _table(
        "trace",
        "one trace file",
        _TRACE_ID,
        ("path", "VARCHAR", "the file, as an absolute path"),
        ("file_name", "VARCHAR", "the file's name without folders"),
        ("rank", "INTEGER", "global rank, NULL where neither file nor file name tells it"),
        (
            "rank_source",
            "VARCHAR",
            "distributedInfo, tracekit_rank, file name, process ids (of a merged file) or unknown",
        ),
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
        (
            "file_bytes",
            "BIGINT",
            "size of the file on disk, bytes; of a merged file at the first of its ranks, else 0",
        ),
        ("text_bytes", "BIGINT", "size of the JSON text, bytes"),
        ("event_count", "BIGINT", "events of every kind that were read"),
        ("complete_count", "BIGINT", "rows of table event"),
        ("span_end_count", "BIGINT", "rows of table span_end"),
        ("flow_count", "BIGINT", "rows of table flow"),
        ("instant_count", "BIGINT", "rows of table instant"),
        ("counter_count", "BIGINT", "rows of table counter"),
        ("memory_count", "BIGINT", "rows of table memory"),
        ("metadata_count", "BIGINT", "rows of table metadata"),
        ("left_out_count", "BIGINT", "rows of table left_out"),
        ("rejected_count", "BIGINT", "rows of table rejected"),
        ("repaired_count", "BIGINT", "rows of table repaired"),
        ("unpaired_count", "BIGINT", "rows of table unpaired"),
        ("is_truncated", "BOOLEAN", "the file ends before the trace does"),
        ("truncation_reason", "VARCHAR", "how that was seen"),
        ("first_ts_ns", "BIGINT", "earliest start of a complete event, ns"),
        ("last_end_ns", "BIGINT", "latest end of a complete event, ns"),
        ("metadata", "JSON", "all members of the trace object but its events"),
        ("run_id", "VARCHAR", "the run whose folder the file lies in; NULL without run.json"),
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
        "record",
        "one readable event of any kind; the tables event to span_end are its views",
        _TRACE_ID,
        *_described(*EVENT_COLUMNS),
    ),
    _view(
        "event",
        "one span: a complete event (ph X), or a begin (B, b) that lasts until its end",
        _TRACE_ID,
        _EVENT_ID,
        ("ph", "VARCHAR", "X complete; B begin on a thread; b begin of asynchronous work"),
        *_THREAD,
        ("category", "VARCHAR", "category, as in the file"),
        ("name", "VARCHAR", "name"),
        _TS,
        _DUR,
        *_described(*LINKS),
        _ARGS,
        _EXTRA,
    ),
    _view(
        "flow",
        "one end of an arrow (ph s, t, f)",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        ("ph", "VARCHAR", "s start, t step, f end"),
        ("flow_id", "BIGINT", "id that the ends of an arrow share within a category"),
        ("category", "VARCHAR", "category"),
        ("name", "VARCHAR", "name"),
        _TS,
        ("binding", "VARCHAR", "binding point (bp)"),
        _ARGS,
        _EXTRA,
        sources={"flow_id": "TRY_CAST(id AS BIGINT)"},
    ),
    _view(
        "instant",
        "one mark (ph i, I, R, n) that is no allocator event",
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
    _view(
        "counter",
        "one sample of counters (ph C)",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        ("category", "VARCHAR", "category"),
        ("name", "VARCHAR", "name"),
        ("series_id", "VARCHAR", "id that tells counters of one name apart"),
        _TS,
        _ARGS,
        _EXTRA,
        sources={"series_id": "id"},
    ),
    _view(
        "memory",
        "one allocator event ([memory])",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        _TS,
        *_described(*MEMORY_COLUMNS),
        _ARGS,
        _EXTRA,
        sources={
            column.name: f"TRY_CAST(args ->> '$.\"{column.keys[0]}\"' AS {column.type})"
            for column in MEMORY_COLUMNS
        },
    ),
    _view(
        "metadata",
        "one metadata event (ph M)",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        ("name", "VARCHAR", "what it tells: process_name, thread_name, …"),
        _TS,
        _ARGS,
        _EXTRA,
    ),
    _view(
        "span_end",
        "one end of a span (ph E, e); the span, from its begin on, is in table event",
        _TRACE_ID,
        _EVENT_ID,
        ("ph", "VARCHAR", "E on a thread; e of asynchronous work"),
        *_THREAD,
        ("category", "VARCHAR", "category"),
        ("name", "VARCHAR", "name, which an end need not have"),
        ("id", "VARCHAR", "of asynchronous work: id of what ends"),
        _TS,
        _ARGS,
        _EXTRA,
    ),
    _view(
        "left_out",
        "one span whose time cannot be: it is in no figure; table implausible says why",
        _TRACE_ID,
        _EVENT_ID,
        ("ph", "VARCHAR", "as in table event"),
        *_THREAD,
        ("category", "VARCHAR", "category, as in the file"),
        ("name", "VARCHAR", "name"),
        _TS,
        _DUR,
        *_described(*LINKS),
        _ARGS,
        _EXTRA,
    ),
    _table(
        "rejected",
        "one piece of a file that could not be read",
        _TRACE_ID,
        ("byte_offset", "BIGINT", "where it begins in the JSON text, bytes"),
        ("event_id", "BIGINT", "its position among the events, where it is well-formed JSON"),
        ("reason", "VARCHAR", "why it could not be read"),
        ("text", "VARCHAR", "its first 2048 bytes"),
        (
            "run_id",
            "VARCHAR",
            "of a line of requests.jsonl or benchmarks.jsonl: the run; trace_id is NULL then",
        ),
    ),
    _table(
        "repaired",
        "one event that was read after mending its text",
        _TRACE_ID,
        _EVENT_ID,
        ("byte_offset", "BIGINT", "where it begins in the JSON text, bytes"),
        ("reason", "VARCHAR", "what was mended"),
    ),
    _table(
        "unpaired",
        "one begin or end of a span without the other; a begin lasts until the trace's end",
        _TRACE_ID,
        ("event_id", "BIGINT", "the begin, in table event, or the end, in table span_end"),
        ("is_begin", "BOOLEAN", "it is a begin"),
        ("reason", "VARCHAR", "what is missing, and what became of it"),
    ),
    *RUN_TABLES,
)
