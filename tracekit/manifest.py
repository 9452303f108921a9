"""`run.json`: what a run was, beside its traces.

The collectors write it, the analysis half reads it into the table `run`; neither knows the other.

A run folder holds `run.json`, `rank<N>.json.gz` for every rank, `requests.jsonl` for serving,
`benchmarks.jsonl` for microbenchmarks, and `logs/`. A folder is whole or absent: it is written
beside its name and renamed.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tracekit.errors import TraceError
from tracekit.small_files import parse_json, read_small
from tracekit.units import NS_PER_S

if TYPE_CHECKING:
    from tracekit.storage import Place

FILE_NAME = "run.json"
# Members that may be below zero; a loss that diverged is no number.
_SIGNED = ("seed", "exit_code", "final_loss", "window_start_ns", "window_end_ns", "lost_ns")
_MAX_ITEMS = 100_000
SCHEMA_VERSION = 3
"""Raised when a member changes its meaning; a manifest of a later version is refused."""

Stage = Literal["pretrain", "finetune", "serve", "bench", "custom"]
Outcome = Literal["ok", "incomplete", "oom", "failed"]
"""How a run ended.

- `ok`: all that it was to do was done.
- `incomplete`: of serving: a part of the load was answered, and other requests failed, the engine
  ended or was lost, or the run was interrupted. Its figures are of that part alone: `load.ok_count`
  of `load.request_count` requests, until `load.lost_ns` if the engine was lost. Of
  microbenchmarks: they were interrupted, and what had been measured is there.
- `oom`: it ran out of memory.
- `failed`: anything else. A program of the user's own that fails after it was recorded keeps its
  figures and its trace; otherwise there are none, or those of the steps that it got to.
"""

# Which outcome a job has whose fragments have different ones: that which comes first.
_SEVERITY: tuple[Outcome, ...] = ("oom", "failed", "incomplete", "ok")


@dataclass(slots=True)
class Model:
    """The model that ran.

    `parameter_count` counts every parameter of the whole model once, however it is sharded or
    packed; `config` is the configuration as the framework states it.
    """

    name: str
    model_class: str | None = None
    parameter_count: int | None = None
    trainable_parameter_count: int | None = None
    layer_count: int | None = None
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Parallel:
    """How the ranks share the work; sizes multiply to the world size, and are None if unknown."""

    world_size: int = 1
    data_size: int | None = 1
    tensor_size: int | None = 1
    pipeline_size: int | None = 1
    node_count: int = 1


@dataclass(slots=True)
class Steps:
    """How many steps were run: not counted, measured, repeated and profiled."""

    warmup_count: int = 0
    measured_count: int = 0
    repeat_count: int = 1
    profiled_count: int = 0


@dataclass(slots=True)
class Repeat:
    """One repeat of the measured steps, without profiler and hooks.

    `step_ns` are the step times of rank 0, each up to the end of its device work;
    `tokens_per_s` counts the tokens of all ranks over the slowest rank's wall time, and is None
    where no tokens were seen.
    """

    tokens_per_s: float | None
    wall_ns: int
    step_ns: list[int] = field(default_factory=list)
    final_loss: float | None = None


@dataclass(slots=True)
class RankMemory:
    """The peak memory of one rank: device bytes by the framework's allocator, host bytes as RSS."""

    rank: int
    device_allocated_bytes: int | None = None
    device_reserved_bytes: int | None = None
    host_bytes: int | None = None


@dataclass(slots=True)
class Overhead:
    """What ranges and profiler cost: the median time of each kind of step, ns, on rank 0.

    Of steps without either, `plain_step_low_ns` and `plain_step_high_ns` are the 10th and the 90th
    percentile, and `plain_after_count` were measured after the profiled ones, the others before
    them. All are of steps in which the same optimizers step, and of those after the profile where
    they differ from those before it; where no two steps are alike, all are None.
    `plain_phase_ns` are medians of their phases, less what is inside of an inner one: by
    events of the device where it has these, and by the host's clock on a CPU. It is empty where
    phases cannot be known without ranges. `ranges_step_ns` is without the first step that has
    them; `light_step_ns` is of steps of which the device's work and the calls for it were recorded
    alone, None on a CPU. Up to version 2 of the manifest times are means, and those of steps with
    ranges have the first.

    `export_stall_ns` is how long the program stood still, from the end of the last profiled step,
    while its profile was ended and written, on the rank where it took longest.
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


@dataclass(slots=True)
class Rank:
    """What one rank of a recorded program left.

    `token_count` are the tokens of its timed steps, `wall_ns` the time of these; `trace` is the
    file in the run folder, None for a rank that left none.
    """

    rank: int
    host_name: str | None = None
    outcome: Outcome = "ok"
    reason: str | None = None
    step_count: int = 0
    token_count: int = 0
    wall_ns: int = 0
    trace: str | None = None


@dataclass(slots=True)
class Environment:
    """Where it ran. `devices` are the accelerators by name, empty on a CPU-only machine.

    `thread_count` are the host threads that arithmetic of a rank runs on, None where ranks differ.
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


@dataclass(slots=True)
class Load:
    """The load of a serving run, and what became of it.

    `arrival` is `burst`, `poisson:RATE` or `constant:RATE` (requests per second). `start_unix_ns`
    is the instant that the times of `requests.jsonl` count from. `window_start_ns` and
    `window_end_ns` bound the profiled window on the same clock. `lost_ns` is when the engine was
    found to be gone, or the load was stopped, on that clock too; None if it was carried out.
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


@dataclass(slots=True)
class Manifest:
    """A run: one `run.json`.

    `opt` is the canonical form of `--opt`. `reason` says why the outcome is not `ok`.
    `tokens_per_s_*` are over the repeats (`std` is the sample standard deviation, None for one
    repeat). `traces` are file names inside the folder, in the order of their ranks. `extra` holds
    what an engine wants to keep and no column is made of.

    `light_traces` are of further steps: kernels, copies and the calls that launch them, without
    ops, ranges and shapes; their member `tracekit_step_bounds_unix_ns` says when each step began
    and ended on the host. They are no traces of the run: nothing reads them with it.

    A program of the user's own (stage `custom`) also has `exit_code` (128 + n for signal n), and
    `gradient_accumulation`, its backward passes in a step. Its job may leave several folders, one
    for each node or launcher: these have one `job_id`, and `ranks` lists the ranks that each holds.
    `join_fragments` makes one of these fragments of a job.
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
    # Imported here: reading manifests does without.
    from tracekit.redaction import mask_json, mask_words

    members = mask_json(dataclasses.asdict(manifest))
    members["command"] = mask_words(manifest.command)
    return json.dumps(members, indent=2, ensure_ascii=False) + "\n"


def write(manifest: Manifest, folder: Path) -> Path:
    """Write `run.json` into a folder that is still being made, and return its path.

    Raises:
        OSError: the folder cannot be written.
    """
    path = folder / FILE_NAME
    path.write_text(to_json(manifest), encoding="utf-8")
    return path


def tokens_per_s(run: Manifest) -> float | None:
    """Return the throughput of the timed steps of a recorded program.

    Each data-parallel rank is given tokens of its own; the others of its tensor-parallel group are
    given the same. So it is the mean of the ranks that were given any, times the data-parallel
    size, over the slowest rank's time: of all ranks, also where only some are held. Where the
    data-parallel size is not known it is of one rank.

    Returns:
        Tokens/s, or None where no tokens were seen.
    """
    given = [rank for rank in run.ranks if rank.token_count]
    wall_ns = max((rank.wall_ns for rank in given), default=0)
    if not wall_ns:
        return None
    mean = sum(rank.token_count for rank in given) / len(given)
    return mean * (run.parallel.data_size or 1) * NS_PER_S / wall_ns


def peak_bytes(run: Manifest) -> int | None:
    """Return the peak memory of the rank that needed most: its device's, else its host's.

    Returns:
        Bytes, or None where no rank's was measured.
    """
    peaks = (rank.device_allocated_bytes or rank.host_bytes for rank in run.peak_memory)
    return max((peak for peak in peaks if peak is not None), default=None)


def are_fragments(runs: Sequence[Manifest]) -> bool:
    """Tell whether runs are fragments of one job: the same job and different ranks of it."""
    ranks = [rank.rank for run in runs for rank in run.ranks]
    return (
        len({run.job_id for run in runs}) == 1
        and runs[0].job_id is not None
        and len({run.parallel.world_size for run in runs}) == 1
        and len(ranks) == len(set(ranks))
    )


def join_fragments(runs: Sequence[Manifest]) -> Manifest:
    """Make one manifest of those of the fragments of a job, as if one folder held all its ranks.

    Args:
        runs: at least one; `are_fragments` is true of them.
    """
    ordered = sorted(runs, key=lambda run: min((rank.rank for rank in run.ranks), default=0))
    worst = min(ordered, key=lambda run: _SEVERITY.index(run.outcome))
    first = ordered[0]
    joined = dataclasses.replace(
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
        joined.environment = dataclasses.replace(first.environment, thread_count=None)
    hosts = {rank.host_name for rank in joined.ranks}
    joined.parallel = dataclasses.replace(first.parallel, node_count=max(1, len(hosts)))
    stalls = [
        run.overhead.export_stall_ns
        for run in ordered
        if run.overhead is not None and run.overhead.export_stall_ns is not None
    ]
    if first.overhead is not None and stalls:
        joined.overhead = dataclasses.replace(first.overhead, export_stall_ns=max(stalls))
    if first.repeats and joined.ranks:
        rate, wall_ns = tokens_per_s(joined), max(rank.wall_ns for rank in joined.ranks)
        repeat = dataclasses.replace(first.repeats[0], tokens_per_s=rate, wall_ns=wall_ns)
        joined.repeats, joined.tokens_per_s_mean = [repeat], rate
    return joined


def read(path: Place) -> Manifest:
    """Read a manifest.

    Args:
        path: a `run.json`, or the folder that holds it; also behind a URL.

    Returns:
        The manifest. Members that this version does not know are left out.

    Raises:
        TraceError: the file is missing, no JSON, of a later version, or a member has a wrong type
            or is an amount below zero.
    """
    # Imported here: a program that is recorded loads this module, and may have a msgspec.py.
    import msgspec

    try:
        # Behind a URL every question is a request.
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
    """Check that counts, sizes, times and rates are numbers, and not below zero.

    Numbers in a dict (what a framework states of itself) are its own.
    """
    if dataclasses.is_dataclass(value):
        for item in dataclasses.fields(value):
            if item.name not in _SIGNED:
                _check_amounts(getattr(value, item.name), f"{where}: {item.name}")
    elif isinstance(value, list):
        if len(value) > _MAX_ITEMS:
            raise ValueError(f"{where} has more than {_MAX_ITEMS:,} items")
        for position, item in enumerate(value):
            _check_amounts(item, f"{where}[{position}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}, not a number")
    elif isinstance(value, int | float) and value < 0:
        raise ValueError(f"{where} is {value}, below zero")
