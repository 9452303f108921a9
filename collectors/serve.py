"""`--stage serve`: put a serving engine under load, and profile it in a window.

What is left behind depends on how the run ends:

- at least one measured request was answered: a run folder with outcome `ok`, whatever became of the
  others, each of which has its outcome in `requests.jsonl`; exit code 0.
- none was answered: a run folder with outcome `failed`, which says why, and exit code 6.
- the engine ends before the load is done, which an embedded one tells: a run folder with outcome
  `failed` or `oom` and the requests so far; exit code 6.
- Ctrl-C during the load: a run folder with outcome `failed`, in which the requests that were not
  done are `cancelled`, if any was done (`ok` if all were, and only the profile is missing); exit
  code 130. Before the first answer, or at a second Ctrl-C, nothing is left.
- the engine does not come up: nothing, and exit code 6.
"""

from __future__ import annotations

import contextlib
import datetime
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import FrameType
from typing import Any

from tracekit import __version__
from tracekit.errors import UsageError, WorkloadError
from tracekit.manifest import Load, Manifest, Outcome, Repeat, Steps
from tracekit.units import NS_PER_S

from . import environment, requests_file, serving_engines, serving_summary
from .arrival import Arrival, parse_arrival
from .load_plan import LoadPlan, LoadResult, ProfilePlan, Progress, Prompt, parse_mark
from .load_progress import ProgressLine
from .open_files import raise_file_limit
from .prompts import text_prompts, token_id_prompts
from .run_folder import RunFolder
from .serving_engines._engine import EngineFacts, ServingEngine

Echo = Callable[[str], None]

DEFAULT_ENGINE = "transformers"
_SMALL = {"requests": 32, "prompt_len": 64, "max_new_tokens": 32, "warmup_requests": 2}
_PAPER = {"requests": 1000, "prompt_len": 512, "max_new_tokens": 128, "warmup_requests": 8}
_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The load as the arguments ask for it."""

    request_count: int
    prompt_token_count: int
    max_new_token_count: int
    warmup_count: int
    arrival: Arrival
    concurrency: int | None
    timeout_s: float
    retry_count: int
    seed: int
    profile: ProfilePlan


def run(
    values: Mapping[str, Any],
    command: list[str],
    echo: Echo,
    progress: Progress | None = None,
) -> Path:
    """Put an engine under load and return the run folder.

    Args:
        values: the arguments that were given, by `Argument.key`.
        command: the command line, for the manifest.
        echo: takes lines for people.
        progress: takes the state of the load; a line on the terminal if None.

    Raises:
        UsageError: an argument is wrong.
        WorkloadError: the engine does not come up, or answers no request.
        KeyboardInterrupt: on Ctrl-C, with a run folder left behind if there is something in it.
    """
    name = str(values.get("engine") or DEFAULT_ENGINE)
    wanted = _wanted(values, is_small=name == DEFAULT_ENGINE and _is_without_gpu())
    engine = _engine(name, values)
    target = Path(values["out"]) if values.get("out") else _default_target(name, values)
    with (
        RunFolder(target, force=bool(values.get("force"))) as folder,
        _terminated_like_interrupted(),
    ):
        try:
            facts = engine.start(folder.path, echo)
            plan, source, notes = _plan(wanted, facts)
            if name != DEFAULT_ENGINE:
                raise_file_limit(min(wanted.concurrency or len(plan.prompts), len(plan.prompts)))
            echo(_announcement(wanted, name))
            with ProgressLine() as line:
                result = engine.run(plan, folder.path, progress or line)
        finally:
            engine.close()
        result.notes[:0] = notes
        run_manifest = _manifest(wanted, facts, result, name, command, source)
        measured = serving_summary.counted(result.records)
        if result.interrupted and all(record.outcome == "cancelled" for record in measured):
            raise KeyboardInterrupt
        requests_file.write(result.records, folder.path)
        folder.commit(run_manifest)
    for text in serving_summary.lines(run_manifest, result.records, target):
        echo(text)
    if result.interrupted:
        raise KeyboardInterrupt
    if run_manifest.outcome != "ok":
        raise WorkloadError(
            f"{target}: {run_manifest.reason}",
            hint=f"each request's outcome is in {target}/{requests_file.FILE_NAME}",
        )
    return target


def engine_names() -> list[str]:
    """Return the engines, which are found by being there."""
    modules = iter_modules(serving_engines.__path__)
    return sorted(module.name for module in modules if not module.name.startswith("_"))


def _engine(name: str, values: Mapping[str, Any]) -> ServingEngine:
    names = engine_names()
    if name not in names:
        raise UsageError(
            f"--engine {name!r} is no serving engine", hint=f"engines: {', '.join(names)}"
        )
    if name == DEFAULT_ENGINE:
        for key in ("url", "launch", "trace_dir", "served_model", "request_body"):
            if values.get(key) is not None:
                others = ", ".join(other for other in names if other != DEFAULT_ENGINE)
                raise UsageError(
                    f"--{key.replace('_', '-')} is for a server, and --engine transformers has "
                    "none",
                    hint=f"say which server it is: --engine {others}",
                )
    engine: ServingEngine = import_module(f"{serving_engines.__name__}.{name}").create(values)
    return engine


def _wanted(values: Mapping[str, Any], *, is_small: bool) -> _Wanted:
    defaults = _SMALL if is_small else _PAPER
    counts = {}
    for key, default in defaults.items():
        value = values.get(key)
        counts[key] = default if value is None else int(value)
        if counts[key] < 1 and key != "warmup_requests":
            raise UsageError(f"--{key.replace('_', '-')} is {counts[key]}, and must be 1 or more")
    concurrency = values.get("concurrency")
    if concurrency is not None and concurrency < 1:
        raise UsageError(f"--concurrency is {concurrency}, and must be 1 or more")
    timeout_s = _TIMEOUT_S if values.get("timeout") is None else float(values["timeout"])
    if timeout_s <= 0:
        raise UsageError(f"--timeout is {timeout_s:g}, and must be more than 0")
    marks = {
        key: None
        if values.get(key) is None
        else parse_mark(str(values[key]), counts["requests"], f"--{key.replace('_', '-')}")
        for key in ("profile_after", "profile_for")
    }
    return _Wanted(
        request_count=counts["requests"],
        prompt_token_count=counts["prompt_len"],
        max_new_token_count=counts["max_new_tokens"],
        warmup_count=counts["warmup_requests"],
        arrival=parse_arrival(str(values.get("arrival") or "burst")),
        concurrency=concurrency,
        timeout_s=timeout_s,
        retry_count=int(values.get("retries") or 0),
        seed=int(values.get("seed") or 0),
        profile=ProfilePlan(
            not values.get("no_profile"), marks["profile_after"], marks["profile_for"]
        ),
    )


def _plan(wanted: _Wanted, facts: EngineFacts) -> tuple[LoadPlan, str, list[str]]:
    """Return the load in detail, what prompts are made of, and what to note about them."""
    limit = facts.max_token_count
    needed = wanted.prompt_token_count + wanted.max_new_token_count
    if limit is not None and needed > limit:
        raise UsageError(
            f"a request of {wanted.prompt_token_count} + {wanted.max_new_token_count} tokens is "
            f"longer than the {limit} that the engine takes",
            hint="lower --prompt-len or --max-new-tokens",
        )
    count = wanted.request_count
    # The second sending of the load has prompts of its own, and so has the warm-up: an engine that
    # keeps what it has seen would have nothing to do.
    total = 2 * count + wanted.warmup_count
    notes = []
    if facts.count_tokens is None:
        source = "token_ids"
        made: list[Prompt] = token_id_prompts(
            total, wanted.prompt_token_count, facts.vocabulary_size, wanted.seed
        )
    else:
        made, counted = text_prompts(
            total, wanted.prompt_token_count, wanted.seed, facts.count_tokens
        )
        source = "text" if counted is None else "usage"
        if counted is None:
            notes.append(
                f"prompts are {wanted.prompt_token_count} words: the engine takes no token ids and "
                "does not say how many tokens a text has"
            )
        elif counted != wanted.prompt_token_count:
            notes.append(
                f"prompts have about {counted} tokens instead of {wanted.prompt_token_count}, "
                "which no number of words gives"
            )
    plan = LoadPlan(
        prompts=made[:count],
        arrival_ns=wanted.arrival.schedule_ns(count, wanted.seed),
        max_new_token_count=wanted.max_new_token_count,
        warmup_prompts=made[2 * count :],
        profile_prompts=made[count : 2 * count],
        concurrency=wanted.concurrency,
        timeout_ns=round(wanted.timeout_s * NS_PER_S),
        retry_count=wanted.retry_count,
        seed=wanted.seed,
        profile=wanted.profile,
    )
    return plan, source, notes


def _manifest(
    wanted: _Wanted,
    facts: EngineFacts,
    result: LoadResult,
    engine: str,
    command: list[str],
    source: str,
) -> Manifest:
    measured = serving_summary.counted(result.records)
    good = [record for record in measured if record.outcome == "ok"]
    rate = serving_summary.output_tokens_per_s(measured)
    interval_ns = serving_summary.interval_ns(measured)
    outcome, reason = _outcome(result, measured)
    return Manifest(
        run_id=uuid.uuid4().hex,
        tracekit_version=__version__,
        created_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        stage="serve",
        engine=engine,
        outcome=outcome,
        reason=reason,
        command=command,
        model=facts.model,
        sequence_length=wanted.prompt_token_count,
        precision=facts.precision,
        seed=wanted.seed,
        attention_backend=facts.attention_backend,
        attention_reason=facts.attention_reason,
        parallel=facts.parallel,
        steps=Steps(profiled_count=result.profiled_step_count),
        repeats=[Repeat(rate, interval_ns)] if rate is not None and interval_ns else [],
        tokens_per_s_mean=rate,
        peak_memory=result.peak_memory,
        environment=environment.probe(),
        load=Load(
            request_count=wanted.request_count,
            prompt_token_count=wanted.prompt_token_count,
            max_new_token_count=wanted.max_new_token_count,
            arrival=str(wanted.arrival),
            concurrency=wanted.concurrency,
            warmup_count=wanted.warmup_count,
            retry_count=wanted.retry_count,
            start_unix_ns=result.start_unix_ns,
            wall_ns=result.wall_ns,
            ok_count=len(good),
            failed_count=len(measured) - len(good),
            prompt_source=source,
            window_start_ns=result.window_start_ns,
            window_end_ns=result.window_end_ns,
            profile_note=result.profile_note,
            server=facts.server,
        ),
        traces=result.traces,
        notes=result.notes + _token_notes(wanted, good, source),
        extra=result.extra,
    )


def _outcome(
    result: LoadResult, measured: list[requests_file.RequestRecord]
) -> tuple[Outcome, str | None]:
    """Return what became of the run, and why it did not go well."""
    if result.failure is not None:
        return "oom" if result.is_out_of_memory else "failed", result.failure
    cancelled_count = sum(record.outcome == "cancelled" for record in measured)
    if cancelled_count:
        done = f"{len(measured) - cancelled_count} of {len(measured)}"
        return "failed", f"interrupted when {done} requests were done"
    if all(record.outcome != "ok" for record in measured):
        return "failed", f"no request was answered: {serving_summary.failures(measured)}"
    return "ok", None


def _token_notes(
    wanted: _Wanted, good: list[requests_file.RequestRecord], source: str
) -> list[str]:
    """Note answers that are shorter than asked, and prompts that the engine counts otherwise."""
    notes = []
    short = [r for r in good if r.output_token_count < wanted.max_new_token_count]
    if short:
        least = min(record.output_token_count for record in short)
        notes.append(
            f"{len(short)} of {len(good)} answers have fewer tokens than asked for, {least} at "
            "least: the model ended them"
        )
    counts = {record.prompt_token_count for record in good}
    if source == "token_ids" and counts - {wanted.prompt_token_count}:
        notes.append(
            f"the engine counts {min(counts)} to {max(counts)} tokens in prompts of "
            f"{wanted.prompt_token_count} ids"
        )
    return notes


def _announcement(wanted: _Wanted, engine: str) -> str:
    bound = f", {wanted.concurrency} in flight at most" if wanted.concurrency else ""
    return (
        f"sending {wanted.request_count} requests ({wanted.prompt_token_count} tokens in, "
        f"{wanted.max_new_token_count} out, {wanted.arrival}{bound}) to {engine}"
    )


def _default_target(engine: str, values: Mapping[str, Any]) -> Path:
    now = datetime.datetime.now().astimezone()
    name = values.get("model") if engine == DEFAULT_ENGINE else values.get("served_model")
    model = f"-{Path(str(name)).name}" if name else ""
    return Path("runs") / f"serve-{engine}{model}-{now:%Y%m%dT%H%M%S}"


def _is_without_gpu() -> bool:
    return environment.accelerator_count() == 0


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end a run as Ctrl-C does, so that no server outlives it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
