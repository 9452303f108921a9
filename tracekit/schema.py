"""The ingested tables of a store: every column with its type, unit, and meaning.

They are defined only here. The loader creates them from this definition, ``.schema`` in ``tracekit
sql`` prints it, and the manual's reference page is generated from it. The headers of SQL files
describe views and derived tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

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

SCHEMA_VERSION = 26
"""Version of the tables, increased with every change. Stores of other versions cannot be opened."""


class Column(Struct, frozen=True):
    """One column: its name, its DuckDB type, and its meaning (with the unit, if any)."""

    name: str
    type: str
    meaning: str


class Table(Struct, frozen=True):
    """One ingested table: the meaning of a row, and its columns in order.

    If `view_name` is set, the table is a view of the rows of `record` with that `view_name`. A
    column is an expression in `sources`, or else the column of `record` with its name.
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
        # zstd halves the size of the store, and is faster than DuckDB's default for JSON. Column
        # extra is excluded, because zstd takes half a MB per row group even for NULLs.
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
        "one run: its run.json, written by the collectors",
        ("run_id", "VARCHAR", "as in run.json; with #2 and so on if several runs have the same id"),
        ("path", "VARCHAR", "absolute path of the run folder"),
        ("folder_name", "VARCHAR", "name of that folder"),
        ("manifest_version", "INTEGER", "version of run.json (schema_version)"),
        ("tracekit_version", "VARCHAR", "version of tracekit that ran it"),
        ("created_at", "VARCHAR", "start time, as in run.json"),
        ("stage", "VARCHAR", "pretrain, finetune, serve, bench or custom; NULL if unreadable"),
        ("engine", "VARCHAR", "training or serving engine"),
        (
            "outcome",
            "VARCHAR",
            "ok, incomplete, oom, failed, or unreadable (no valid run.json)",
        ),
        ("reason", "VARCHAR", "why the outcome is not ok"),
        ("command", "VARCHAR[]", "command line"),
        ("opt", "VARCHAR", "optimizations, in canonical form"),
        ("model", "VARCHAR", "name of the model"),
        ("model_class", "VARCHAR", "its class"),
        ("parameter_count", "BIGINT", "parameters of the complete model"),
        ("trainable_parameter_count", "BIGINT", "trainable parameters"),
        ("layer_count", "INTEGER", "layers"),
        ("model_config", "JSON", "model configuration of the framework"),
        ("batch_size", "INTEGER", "sequences per forward pass and data-parallel rank"),
        ("sequence_length", "INTEGER", "tokens per sequence"),
        ("precision", "VARCHAR", "data type of the computation"),
        ("seed", "BIGINT", "seed"),
        ("attention_backend", "VARCHAR", "attention implementation"),
        ("attention_reason", "VARCHAR", "why this implementation was chosen"),
        ("world_size", "INTEGER", "ranks"),
        ("data_size", "INTEGER", "data-parallel size; NULL if unknown, then figures are per rank"),
        ("tensor_size", "INTEGER", "tensor-parallel size"),
        ("pipeline_size", "INTEGER", "pipeline-parallel size"),
        ("node_count", "INTEGER", "machines"),
        ("warmup_step_count", "INTEGER", "warm-up steps"),
        ("measured_step_count", "INTEGER", "measured steps per repeat"),
        ("repeat_count", "INTEGER", "planned repeats"),
        ("profiled_step_count", "INTEGER", "profiled steps"),
        ("tokens_per_s_mean", "DOUBLE", "tokens/s of all ranks, mean of the repeats"),
        (
            "tokens_per_s_std",
            "DOUBLE",
            "sample standard deviation of tokens/s; NULL for one repeat",
        ),
        ("peak_device_allocated_bytes", "BIGINT", "peak allocated memory of any rank, bytes"),
        ("peak_device_reserved_bytes", "BIGINT", "peak reserved memory of any rank, bytes"),
        ("peak_host_bytes", "BIGINT", "peak host memory of any rank, bytes"),
        ("peak_memory", "JSON", "peak memory of every rank"),
        ("plain_step_ns", "BIGINT", "median step without ranges or the profiler, rank 0, ns"),
        ("plain_step_low_ns", "BIGINT", "10th percentile of these steps, ns"),
        ("plain_step_high_ns", "BIGINT", "90th percentile of these steps, ns"),
        ("plain_after_count", "INTEGER", "number of these steps measured after the profiled ones"),
        ("plain_phase_ns", "JSON", "median time of each phase in these steps, if known, ns"),
        ("ranges_step_ns", "BIGINT", "median step with ranges, rank 0, ns"),
        ("profiled_step_ns", "BIGINT", "median step with ranges and profiler, rank 0, ns"),
        ("light_step_ns", "BIGINT", "median step with only device activity recorded, ns"),
        ("export_stall_ns", "BIGINT", "pause of the program while its trace was written, ns"),
        ("job_id", "VARCHAR", "id shared by the folders of one job"),
        ("exit_code", "INTEGER", "exit code of the user's program; 128 + n for signal n"),
        ("gradient_accumulation", "INTEGER", "backward passes per step"),
        ("ranks", "JSON", "ranks of a recorded program in this run, with the output of each"),
        ("host_name", "VARCHAR", "host"),
        ("platform", "VARCHAR", "operating system"),
        ("python_version", "VARCHAR", "version of Python"),
        ("processor", "VARCHAR", "processor"),
        ("core_count", "INTEGER", "cores"),
        ("thread_count", "INTEGER", "compute threads of each rank; NULL if unknown"),
        ("memory_bytes", "BIGINT", "host memory, bytes"),
        ("devices", "VARCHAR[]", "accelerators by name; empty on a CPU-only machine"),
        ("device_memory_bytes", "BIGINT", "memory of one accelerator, bytes"),
        ("driver_version", "VARCHAR", "driver version"),
        ("packages", "JSON", "package versions by name"),
        ("variables", "JSON", "relevant environment variables"),
        ("load_request_count", "BIGINT", "serving: requests of the load, without warm-up"),
        ("load_prompt_token_count", "BIGINT", "requested prompt tokens"),
        ("load_max_new_token_count", "BIGINT", "requested output tokens"),
        ("load_arrival", "VARCHAR", "burst, poisson:RATE, or constant:RATE (requests/s)"),
        ("load_concurrency", "INTEGER", "maximum number of requests in flight; NULL for no limit"),
        ("load_warmup_count", "BIGINT", "warm-up requests"),
        ("load_retry_count", "INTEGER", "allowed retries per request"),
        ("load_start_unix_ns", "BIGINT", "offset of times in table request, ns"),
        ("load_wall_ns", "BIGINT", "duration of the load, ns"),
        ("load_ok_count", "BIGINT", "successful requests, as counted by the client"),
        ("load_failed_count", "BIGINT", "failed requests"),
        ("load_prompt_source", "VARCHAR", "source of prompt lengths"),
        ("load_window_start_ns", "BIGINT", "start of the profiled window in the load, ns"),
        ("load_window_end_ns", "BIGINT", "end of the profiled window in the load, ns"),
        ("load_profile_note", "VARCHAR", "note on the profile, such as why there is none"),
        (
            "load_lost_ns",
            "BIGINT",
            (
                "time at which an incomplete load ended (engine lost, or load stopped), relative "
                "to its start, ns"
            ),
        ),
        ("load_server", "JSON", "description of the server"),
        ("traces", "VARCHAR[]", "trace files of the run"),
        ("light_traces", "VARCHAR[]", "traces with device activity only, which are in no table"),
        ("missing_trace_count", "INTEGER", "trace files missing from the folder"),
        ("notes", "VARCHAR[]", "other notes"),
        ("extra", "JSON", "other data of the engine"),
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
        "one repeat of the measured steps, without profiler or hooks",
        _RUN_ID,
        ("repeat", "INTEGER", "number of the repeat, from 0"),
        ("tokens_per_s", "DOUBLE", "tokens of all ranks over the slowest rank's time, tokens/s"),
        ("wall_ns", "BIGINT", "time of the measured steps, ns"),
        ("step_ns", "BIGINT[]", "time of each step on rank 0, ns"),
        ("final_loss", "DOUBLE", "loss of the last step"),
    ),
    _table(
        "request",
        "serving: one request; times are relative to run.load_start_unix_ns",
        _RUN_ID,
        ("request_id", "BIGINT", "number of the request in its run"),
        ("engine_request_id", "VARCHAR", "id of the request in the engine"),
        ("is_warmup", "BOOLEAN", "warm-up request, which counts in no figure"),
        ("is_profiled", "BOOLEAN", "request of the profiled load, which counts in no figure"),
        ("outcome", "VARCHAR", "ok, timeout, refused, http_error, broken_stream, bad_response, …"),
        ("reason", "VARCHAR", "why the outcome is not ok"),
        ("http_status", "INTEGER", "HTTP status"),
        ("attempt_count", "INTEGER", "number of attempts"),
        ("prompt_token_count", "BIGINT", "prompt tokens"),
        ("prompt_source", "VARCHAR", "source of that number: token_ids, text, or usage"),
        ("output_token_count", "BIGINT", "output tokens"),
        ("arrival_ns", "BIGINT", "scheduled time, ns"),
        ("sent_ns", "BIGINT", "send time, ns"),
        ("first_token_ns", "BIGINT", "time of the first token, ns"),
        ("end_ns", "BIGINT", "end time, ns"),
        ("token_ns", "BIGINT[]", "times of each token, or chunk of tokens, ns"),
        ("token_counts", "BIGINT[]", "tokens per chunk; NULL if each has one"),
        ("extra", "JSON", "other members of the line"),
    ),
    _table(
        "request_step",
        "serving: consecutive engine steps (tk/step/<n>) that served a request",
        _RUN_ID,
        ("request_id", "BIGINT", "the request, as in table request"),
        ("first_step", "BIGINT", "number of the first step"),
        ("last_step", "BIGINT", "number of the last step"),
    ),
    _table(
        "benchmark",
        "bench: one measured point, a line of benchmarks.jsonl; times per call, no rates",
        _RUN_ID,
        ("bench_id", "BIGINT", "number of the point in its run, in measuring order"),
        ("family", "VARCHAR", "gemm, memcpy, collective, or launch"),
        ("op", "VARCHAR", "mm, h2d, all_reduce, empty_kernel, …"),
        ("series", "VARCHAR", "curve of the point: N4096_K4096, llama2-7b/qkv, …"),
        ("device", "VARCHAR", "cpu or cuda:0; for a collective, the device of rank 0"),
        ("device_name", "VARCHAR", "product name from the driver or the processor"),
        ("unit_count", "INTEGER", "multiprocessors or compute units of the device; NULL for a CPU"),
        ("thread_count", "INTEGER", "compute threads on the host"),
        ("dtype", "VARCHAR", "type of the operands, as in devices.toml; NULL for bytes"),
        ("m", "BIGINT", "rows of the GEMM (M); of one group if it is grouped"),
        ("n", "BIGINT", "its columns"),
        ("k", "BIGINT", "inner dimension"),
        ("batch", "BIGINT", "GEMMs per call"),
        ("memory", "VARCHAR", "host memory of a copy: pinned or pageable"),
        (
            "message_bytes",
            "BIGINT",
            "bytes copied; for a collective, the data of one rank (for all-gather, its output)",
        ),
        ("group_size", "INTEGER", "ranks of a collective"),
        ("backend", "VARCHAR", "backend of a collective: nccl or gloo"),
        ("timer", "VARCHAR", "cuda_event (device time) or wall_clock (host time)"),
        ("warmup_count", "BIGINT", "calls before the first sample"),
        ("repeat_count", "BIGINT", "samples"),
        ("inner_count", "BIGINT", "calls per sample"),
        (
            "sample_ns",
            "DOUBLE[]",
            "time per call in each sample, ns; for a collective, on the slowest rank",
        ),
        ("median_ns", "DOUBLE", "median of sample_ns, ns"),
        ("low_ns", "DOUBLE", "lower bound of its confidence interval, ns; NULL with few samples"),
        ("high_ns", "DOUBLE", "upper bound, ns"),
        ("min_ns", "DOUBLE", "minimum sample, ns"),
        ("max_ns", "DOUBLE", "maximum sample, ns"),
        ("confidence_pct", "DOUBLE", "minimum confidence of the interval, 0 to 100"),
        ("clock_hz", "BIGINT", "multiprocessor clock right after the point, from NVML"),
        ("memory_clock_hz", "BIGINT", "memory clock right after the point"),
        (
            "power_w",
            "DOUBLE",
            "power right after the point, W; newer devices report a mean over one second",
        ),
        ("temperature_c", "DOUBLE", "temperature right after the point, degrees Celsius"),
        ("outcome", "VARCHAR", "ok; else unsupported, oom, or failed, without times"),
        ("reason", "VARCHAR", "why the outcome is not ok"),
        ("extra", "JSON", "other members of the line"),
    ),
    _table(
        "named_peak",
        "data-sheet peaks of a device in table benchmark, for one type",
        ("device_name", "VARCHAR", "as in table benchmark"),
        ("unit_count", "INTEGER", "as in table benchmark"),
        ("product", "VARCHAR", "matching product of the data sheet"),
        ("dtype", "VARCHAR", "type, such as bf16"),
        ("flop_per_s", "DOUBLE", "dense peak for the type, FLOP/s"),
        ("memory_bytes_per_s", "DOUBLE", "memory bandwidth, bytes/s"),
        ("source", "VARCHAR", "data sheet of the vendor"),
    ),
    _table(
        "system_sample",
        (
            "one sample of a system tool: from power.csv of a run folder, or a file passed "
            "with a trace"
        ),
        ("path", "VARCHAR", "the file"),
        ("folder", "VARCHAR", "run folder of the file; NULL: it applies to all traces"),
        ("device", "VARCHAR", "device number, or cpu; NULL without such a column"),
        ("name", "VARCHAR", "column name, in lower case"),
        (
            "unit",
            "VARCHAR",
            ("unit in the file (W, J, %, …), with mW and mJ converted to W and J; NULL if none"),
        ),
        ("at_ns", "BIGINT", "time, ns since the epoch"),
        ("clock", "VARCHAR", "UTC, or local: the time zone of the machine that reads the file"),
        ("value", "DOUBLE", "value"),
    ),
)
"""Tables of run folders; they are empty if the traces are not in a run folder."""

TABLES: tuple[Table, ...] = (
    _table(
        "store_info",
        "the store itself: one row",
        ("schema_version", "INTEGER", "version of these tables"),
        ("tracekit_version", "VARCHAR", "version of tracekit that wrote the store"),
        ("made_by", "VARCHAR", "digest of the code, SQL files, and rules that created its rows"),
    ),
    _table(
        "trace",
        "one trace file",
        _TRACE_ID,
        ("path", "VARCHAR", "absolute path of the file"),
        ("file_name", "VARCHAR", "file name without folders"),
        ("rank", "INTEGER", "global rank, NULL if neither the file nor its name contains it"),
        (
            "rank_source",
            "VARCHAR",
            "distributedInfo, tracekit_rank, file name, process ids (of a merged file), or unknown",
        ),
        ("world_size", "INTEGER", "number of ranks of the job"),
        ("backend", "VARCHAR", "communication backend of the job"),
        ("base_time_ns", "BIGINT", "add it to ts_ns for ns since the epoch; 0 if absent"),
        ("display_time_unit", "VARCHAR", "as in the file; does not change the values"),
        ("trace_uuid", "VARCHAR", "id of the trace from the profiler"),
        ("host_name", "VARCHAR", "host name of the process"),
        ("record_shapes", "BOOLEAN", "profiler flag: shapes of op arguments recorded"),
        ("with_stack", "BOOLEAN", "profiler flag: Python frames recorded"),
        ("with_modules", "BOOLEAN", "profiler flag: module hierarchy requested"),
        ("with_flops", "BOOLEAN", "profiler flag: FLOPs estimated"),
        ("profile_memory", "BOOLEAN", "profiler flag: allocator events recorded"),
        (
            "file_bytes",
            "BIGINT",
            (
                "size of the file on disk, bytes; a merged file counts only for its first rank, "
                "and is 0 for its other ranks"
            ),
        ),
        ("text_bytes", "BIGINT", "size of the JSON text, bytes"),
        ("event_count", "BIGINT", "events of all kinds that were read"),
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
        ("truncation_reason", "VARCHAR", "evidence for the truncation"),
        ("first_ts_ns", "BIGINT", "earliest start of a complete event, ns"),
        ("last_end_ns", "BIGINT", "latest end of a complete event, ns"),
        ("metadata", "JSON", "all members of the trace object except its events"),
        ("run_id", "VARCHAR", "run whose folder contains the file; NULL without run.json"),
    ),
    _table(
        "device",
        "one accelerator described in the file",
        _TRACE_ID,
        ("device_id", "BIGINT", "device number in the process"),
        ("name", "VARCHAR", "product name"),
        ("total_memory_bytes", "BIGINT", "memory, bytes"),
        ("compute_capability", "VARCHAR", "major.minor"),
        ("sm_count", "INTEGER", "streaming multiprocessors or compute units"),
        ("properties", "JSON", "all properties, as in the file"),
    ),
    _table(
        "process_group",
        "one process group described in the file",
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
        "one span: a complete event (ph X), or a begin event (B, b) up to its end",
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
        "one end of a flow arrow (ph s, t, f)",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        ("ph", "VARCHAR", "s start, t step, f end"),
        ("flow_id", "BIGINT", "id shared by the ends of an arrow within a category"),
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
        "one instant event (ph i, I, R, n), except allocator events",
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
        "one counter sample (ph C)",
        _TRACE_ID,
        _EVENT_ID,
        *_THREAD,
        ("category", "VARCHAR", "category"),
        ("name", "VARCHAR", "name"),
        ("series_id", "VARCHAR", "id that separates counters with the same name"),
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
        ("name", "VARCHAR", "process_name, thread_name, …"),
        _TS,
        _ARGS,
        _EXTRA,
    ),
    _view(
        "span_end",
        "one end event of a span (ph E, e); the span is in table event",
        _TRACE_ID,
        _EVENT_ID,
        ("ph", "VARCHAR", "E on a thread; e of asynchronous work"),
        *_THREAD,
        ("category", "VARCHAR", "category"),
        ("name", "VARCHAR", "name, which an end event may lack"),
        ("id", "VARCHAR", "id of the asynchronous span"),
        _TS,
        _ARGS,
        _EXTRA,
    ),
    _view(
        "left_out",
        "one span with an impossible time, which counts in no figure; see table implausible",
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
        "one part of a file that could not be parsed",
        _TRACE_ID,
        ("byte_offset", "BIGINT", "offset in the JSON text, bytes"),
        ("event_id", "BIGINT", "position among the events, if it is valid JSON"),
        ("reason", "VARCHAR", "parse error"),
        ("text", "VARCHAR", "its first 2048 bytes"),
        (
            "run_id",
            "VARCHAR",
            "for a line of requests.jsonl or benchmarks.jsonl: the run; trace_id is NULL then",
        ),
    ),
    _table(
        "repaired",
        "one event that was parsed after repairing its text",
        _TRACE_ID,
        _EVENT_ID,
        ("byte_offset", "BIGINT", "offset in the JSON text, bytes"),
        ("reason", "VARCHAR", "repair"),
    ),
    _table(
        "unpaired",
        "one begin or end event without a counterpart; a begin lasts until the end of the trace",
        _TRACE_ID,
        ("event_id", "BIGINT", "begin event in table event, or end event in table span_end"),
        ("is_begin", "BOOLEAN", "whether it is a begin event"),
        ("reason", "VARCHAR", "missing data, and how it is counted"),
    ),
    *RUN_TABLES,
)
