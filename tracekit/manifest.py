"""`run.json`: the description of a run, stored with its traces.

Collectors write it, and ingest reads it into table `run`.

A run folder has `run.json`, `rank<N>.json.gz` for every rank, `requests.jsonl` for serving,
`benchmarks.jsonl` for microbenchmarks, and `logs/`. It is written under a temporary name and then
renamed, so that it is complete or absent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from tracekit.errors import TraceError
from tracekit.small_files import parse_json, read_small
from tracekit.units import NS_PER_S

if TYPE_CHECKING:
    from tracekit.storage import Place

FILE_NAME = "run.json"
# Members that may be negative; a diverged loss is NaN.
_SIGNED = ("seed", "exit_code", "final_loss", "window_start_ns", "window_end_ns", "lost_ns")
_MAX_ITEMS = 100_000
SCHEMA_VERSION = 3
"""Version of the format, increased when a member changes its meaning. Later versions are
rejected."""

Stage = Literal["pretrain", "finetune", "serve", "bench", "custom"]
Outcome = Literal["ok", "incomplete", "oom", "failed"]
"""How a run ended.

- `ok`: the run finished.
- `incomplete`: only some requests were answered (others failed, the engine ended, or the run was
interrupted), or microbenchmarks were interrupted. Figures cover `load.ok_count` of
`load.request_count` requests, until `load.lost_ns` if the engine was lost.
- `oom`: it ran out of memory.
- `failed`: any other failure. If a user's program fails after recording, the run has its figures
and its trace. Otherwise, it has at most figures of the finished steps.
"""

# The outcome of a job is the first one in this order that a fragment has.
_SEVERITY: tuple[Outcome, ...] = ("oom", "failed", "incomplete", "ok")


class Model(Struct):
    """The model that ran.

    `parameter_count` counts each parameter of the complete model once, including sharded and packed
    ones. `config` is the configuration from the framework.
    """

    name: str
    model_class: str | None = None
    parameter_count: int | None = None
    trainable_parameter_count: int | None = None
    layer_count: int | None = None
    config: dict[str, Any] = field(default_factory=dict)


class Parallel(Struct):
    """Parallelism. Sizes multiply to the world size, and are None if unknown."""

    world_size: int = 1
    data_size: int | None = 1
    tensor_size: int | None = 1
    pipeline_size: int | None = 1
    node_count: int = 1


class Steps(Struct):
    """Numbers of warm-up, measured, repeated, and profiled steps."""

    warmup_count: int = 0
    measured_count: int = 0
    repeat_count: int = 1
    profiled_count: int = 0


class Repeat(Struct):
    """One repeat of the measured steps, without profiler or hooks.

    `step_ns` are the step times of rank 0, each until the end of its device work. `tokens_per_s` is
    the number of tokens of all ranks divided by the wall time of the slowest rank; None if tokens
    are unknown.
    """

    tokens_per_s: float | None
    wall_ns: int
    step_ns: list[int] = field(default_factory=list)
    final_loss: float | None = None


class RankMemory(Struct):
    """Peak memory of one rank: device bytes from the framework's allocator, host bytes as RSS."""

    rank: int
    device_allocated_bytes: int | None = None
    device_reserved_bytes: int | None = None
    host_bytes: int | None = None


class Overhead(Struct):
    """Cost of ranges and profiling: median times of steps on rank 0, ns.

    All compared steps run the same optimizers. If unprofiled steps before and after the profile
    differ, those after it are used. If no two kinds of steps are comparable, all attributes are
    None. In version 2 and earlier, times are means, and steps with ranges include the first one.

    Attributes:
        plain_step_ns: unprofiled steps without ranges.
        plain_step_low_ns: their 10th percentile.
        plain_step_high_ns: their 90th percentile.
        plain_after_count: number of them after the profile; the others came before it.
        plain_phase_ns: median times of their phases without inner phases, by device events or, on a
        CPU, by the host clock. Empty if phases are known only from ranges.
        ranges_step_ns: unprofiled steps with ranges, except the first one.
        profiled_step_ns: profiled steps.
        light_step_ns: steps with a profile of device work and its launches only; None on a CPU.
        export_stall_ns: pause of the program after the last profiled step, while the profile was
            stopped and written, on the slowest rank.
    """

    plain_step_ns: int | None = None
    plain_step_low_ns: int | None = None
    plain_step_high_ns: int | None = None
    plain_after_count: int = 0
    plain_phase_ns: dict[str, int] = field(default_factory=dict)
    ranges_step_ns: int | None = None
    profiled_step_ns: int | None = None
    light_step_ns: int | None = None
    export_stall_ns: int | None = None


class Rank(Struct):
    """One rank of a recorded program.

    `token_count` and `wall_ns` are the tokens and the time of its timed steps. `trace` is the file
    in the run folder, or None.
    """

    rank: int
    host_name: str | None = None
    outcome: Outcome = "ok"
    reason: str | None = None
    step_count: int = 0
    token_count: int = 0
    wall_ns: int = 0
    trace: str | None = None


class Environment(Struct):
    """The machine. `devices` has the names of accelerators, and is empty on a CPU-only machine.

    `thread_count` is the number of compute threads of a rank, or None if ranks differ.
    """

    host_name: str | None = None
    platform: str | None = None
    python_version: str | None = None
    processor: str | None = None
    core_count: int | None = None
    thread_count: int | None = None
    memory_bytes: int | None = None
    devices: list[str] = field(default_factory=list)
    device_memory_bytes: int | None = None
    driver_version: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


class Load(Struct):
    """The load of a serving run and its outcome.

    `arrival` is `burst`, `poisson:RATE`, or `constant:RATE` (requests/s). Times in `requests.jsonl`
    count from `start_unix_ns`. On this clock, `window_start_ns` and `window_end_ns` bound the
    profiled window. `lost_ns` is the time at which the engine was lost or the load stopped; None
    for a complete load.
    """

    request_count: int
    prompt_token_count: int
    max_new_token_count: int
    arrival: str = "burst"
    concurrency: int | None = None
    warmup_count: int = 0
    retry_count: int = 0
    start_unix_ns: int = 0
    wall_ns: int | None = None
    ok_count: int = 0
    failed_count: int = 0
    prompt_source: str | None = None
    window_start_ns: int | None = None
    window_end_ns: int | None = None
    profile_note: str | None = None
    lost_ns: int | None = None
    server: dict[str, Any] = field(default_factory=dict)


class Manifest(Struct):
    """A run: one `run.json`.

    `opt` is the canonical form of `--opt`. `reason` explains an outcome other than `ok`.
    `tokens_per_s_*` summarize the repeats (`std` is the sample standard deviation, None for one
    repeat). `traces` are file names in the folder, by rank. `extra` has engine data without a
    column.

    `light_traces` record additional steps: kernels, copies, and their launches, without ops,
    ranges, and shapes. Their member `tracekit_step_bounds_unix_ns` has the start and end of each
    step on the host. They are not read with the traces of the run.

    A user's program (stage `custom`) also has `exit_code` (128 + n for signal n) and
    `gradient_accumulation`, the number of backward passes per step. Its job may have several
    folders with the same `job_id`, one per node or launcher; `ranks` lists the ranks in each.
    `join_fragments` merges them.
    """

    run_id: str
    tracekit_version: str
    created_at: str
    stage: Stage
    engine: str
    outcome: Outcome = "ok"
    reason: str | None = None
    schema_version: int = SCHEMA_VERSION
    command: list[str] = field(default_factory=list)
    opt: str | None = None
    model: Model | None = None
    batch_size: int | None = None
    sequence_length: int | None = None
    precision: str | None = None
    seed: int | None = None
    attention_backend: str | None = None
    attention_reason: str | None = None
    parallel: Parallel = field(default_factory=Parallel)
    steps: Steps = field(default_factory=Steps)
    repeats: list[Repeat] = field(default_factory=list)
    tokens_per_s_mean: float | None = None
    tokens_per_s_std: float | None = None
    peak_memory: list[RankMemory] = field(default_factory=list)
    overhead: Overhead | None = None
    environment: Environment = field(default_factory=Environment)
    load: Load | None = None
    job_id: str | None = None
    exit_code: int | None = None
    gradient_accumulation: int | None = None
    ranks: list[Rank] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    light_traces: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)


def to_json(manifest: Manifest) -> str:
    """Return a manifest as indented JSON with a final newline, without secrets."""
    # Imported late, because reading manifests does not need it.
    from tracekit.redaction import mask_json, mask_words

    members = mask_json(msgspec.to_builtins(manifest))
    members["command"] = mask_words(manifest.command)
    return json.dumps(members, indent=2, ensure_ascii=False) + "\n"


def write(manifest: Manifest, folder: Path) -> Path:
    """Write `run.json` into an incomplete run folder, and return its path.

    Raises:
        OSError: the folder cannot be written.
    """
    path = folder / FILE_NAME
    path.write_text(to_json(manifest), encoding="utf-8")
    return path


def tokens_per_s(run: Manifest) -> float | None:
    """Return the throughput of the timed steps of a recorded program.

    The ranks of a tensor-parallel group process the same tokens. So the result is the mean over
    ranks with tokens, times the data-parallel size, divided by the time of the slowest rank. It
    covers all ranks, even if only some are recorded. If the data-parallel size is unknown, it is
    the throughput of one rank.

    Returns:
        Tokens/s, or None without known tokens.
    """
    ranks = [rank for rank in run.ranks if rank.token_count]
    wall_ns = max((rank.wall_ns for rank in ranks), default=0)
    if not wall_ns:
        return None
    mean = sum(rank.token_count for rank in ranks) / len(ranks)
    return mean * (run.parallel.data_size or 1) * NS_PER_S / wall_ns


def peak_bytes(run: Manifest) -> int | None:
    """Return the largest peak memory of a rank: device memory if known, else host memory.

    Returns:
        Bytes, or None if it was not measured.
    """
    peaks = (rank.device_allocated_bytes or rank.host_bytes for rank in run.peak_memory)
    return max((peak for peak in peaks if peak is not None), default=None)


def are_fragments(runs: Sequence[Manifest]) -> bool:
    """Return whether runs are fragments of one job: same job_id and world size, disjoint ranks."""
    ranks = [rank.rank for run in runs for rank in run.ranks]
    return (
        len({run.job_id for run in runs}) == 1
        and runs[0].job_id is not None
        and len({run.parallel.world_size for run in runs}) == 1
        and len(ranks) == len(set(ranks))
    )


def join_fragments(runs: Sequence[Manifest]) -> Manifest:
    """Merge the manifests of the fragments of a job, as if one folder had all ranks.

    Args:
        runs: one or more manifests for which `are_fragments` is true.
    """
    ordered = sorted(runs, key=lambda run: min((rank.rank for rank in run.ranks), default=0))
    worst = min(ordered, key=lambda run: _SEVERITY.index(run.outcome))
    first = ordered[0]
    joined = replace(
        first,
        outcome=worst.outcome,
        reason=worst.reason,
        exit_code=next((run.exit_code for run in ordered if run.exit_code), first.exit_code),
        ranks=sorted((rank for run in ordered for rank in run.ranks), key=lambda rank: rank.rank),
        traces=list(dict.fromkeys(name for run in ordered for name in run.traces)),
        light_traces=list(dict.fromkeys(name for run in ordered for name in run.light_traces)),
        peak_memory=sorted(
            (memory for run in ordered for memory in run.peak_memory), key=lambda one: one.rank
        ),
        notes=list(dict.fromkeys(note for run in ordered for note in run.notes)),
    )
    if len({run.environment.thread_count for run in ordered}) > 1:
        joined.environment = replace(first.environment, thread_count=None)
    hosts = {rank.host_name for rank in joined.ranks}
    joined.parallel = replace(first.parallel, node_count=max(1, len(hosts)))
    stalls = [
        run.overhead.export_stall_ns
        for run in ordered
        if run.overhead is not None and run.overhead.export_stall_ns is not None
    ]
    if first.overhead is not None and stalls:
        joined.overhead = replace(first.overhead, export_stall_ns=max(stalls))
    if first.repeats and joined.ranks:
        rate, wall_ns = tokens_per_s(joined), max(rank.wall_ns for rank in joined.ranks)
        repeat = replace(first.repeats[0], tokens_per_s=rate, wall_ns=wall_ns)
        joined.repeats, joined.tokens_per_s_mean = [repeat], rate
    return joined


def read(path: Place) -> Manifest:
    """Read a manifest.

    Args:
        path: path or URL of a `run.json` or its folder.

    Returns:
        The manifest, without unknown members.

    Raises:
        TraceError: the file is missing, is not JSON, has a later version, or a member has a wrong
            type or a negative amount.
    """
    # Imported late, because recorded programs load this module and may have their own msgspec.py.
    import msgspec

    try:
        # For a URL, is_dir() would send a request.
        if path.is_dir() if isinstance(path, Path) else path.name != FILE_NAME:
            path = path / FILE_NAME
        text = read_small(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TraceError(f"{path}: the manifest cannot be read: {reason}") from error
    try:
        value = parse_json(text)
    except ValueError as error:
        raise TraceError(f"{path}: the manifest is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise TraceError(f"{path}: the manifest is not a JSON object")
    version = value.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise TraceError(
            f"{path}: the manifest has version {version!s:.20}, but this tracekit reads "
            f"up to {SCHEMA_VERSION}",
            hint="read it with the version of tracekit that wrote it, or a later one",
        )
    try:
        run = msgspec.convert(value, Manifest)
        _check_amounts(run, "run.json")
    except ValueError as error:
        raise TraceError(f"{path}: the manifest is not valid: {error!s:.200}") from error
    return run


def _check_amounts(value: object, where: str) -> None:
    """Check that counts, sizes, times, and rates are numbers and not negative.

    Numbers in a dict come from the framework and are not checked.
    """
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            if name not in _SIGNED:
                _check_amounts(getattr(value, name), f"{where}: {name}")
    elif isinstance(value, list):
        if len(value) > _MAX_ITEMS:
            raise ValueError(f"{where} has more than {_MAX_ITEMS:,} items")
        for position, item in enumerate(value):
            _check_amounts(item, f"{where}[{position}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}, not a number")
    elif isinstance(value, int | float) and value < 0:
        raise ValueError(f"{where} is {value}, below zero")
