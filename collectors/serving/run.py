"""`--stage serve`: put a serving engine under load, and profile it in a window.

What is left behind depends on how the run ends:

- every measured request was answered: a run folder with outcome `ok`; exit code 0.
- some were answered and others failed: a run folder with outcome `incomplete`, whose figures are of
  those that were answered; each request has its outcome in `requests.jsonl`; exit code 6.
- the engine ends or is lost before all is done: a run folder with outcome `incomplete` (`oom` where
  an embedded one ran out of memory) and the requests so far, which its figures are of, as its
  reason says; exit code 6. A server is lost if it no longer answers at the end, or if requests
  found none meanwhile.
- no request was answered: a run folder with outcome `failed`, which says why, and exit code 6.
- Ctrl-C or SIGTERM during the load: a run folder with outcome `incomplete`, in which the requests
  that were not done are `cancelled`, if any was answered (`ok` if all were, and only the profile is
  missing); exit code 130. Before the first answer, or at a second Ctrl-C, nothing is left.
- the engine does not come up: nothing, and exit code 6.

No secret that the run is given (in arguments, URLs or the environment) is kept or shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from tracekit.errors import TracekitError, UsageError, WorkloadError
from tracekit.redaction import Redactor
from tracekit.units import NS_PER_S

from ..machine.hardware import accelerator_count
from ..process.signals import signals_as_interrupt
from ..run.folder import RunFolder, default_target
from . import engines, summary
from .engine import EngineFacts, ServingEngine
from .http.open_files import raise_file_limit
from .load import requests_file
from .load.arrival import parse_arrival
from .load.plan import LoadPlan, ProfilePlan, Progress, Prompt, parse_mark
from .load.progress import ProgressLine
from .load.prompts import text_prompts, token_id_prompts
from .manifest import WantedLoad, clean_facts, clean_result, serving_manifest
from .redactor import redactor_of

Echo = Callable[[str], None]
Figures = Callable[[Path], list[str]]

DEFAULT_ENGINE = "transformers"
_SMALL = {"requests": 32, "prompt_len": 64, "max_new_tokens": 32, "warmup_requests": 2}
_PAPER = {"requests": 1000, "prompt_len": 512, "max_new_tokens": 128, "warmup_requests": 8}
_TIMEOUT_S = 600.0


def run(
    values: Mapping[str, Any],
    command: list[str],
    echo: Echo,
    progress: Progress | None = None,
    figures: Figures | None = None,
) -> Path:
    """Put an engine under load and return the run folder.

    Args:
        values: the arguments that were given, by `Argument.key`.
        command: the command line, for the manifest.
        echo: takes lines for people.
        progress: takes the state of the load; a line on the terminal if None.
        figures: returns lines of what analyses say of a run folder; none are shown if None.

    Raises:
        UsageError: an argument is wrong.
        WorkloadError: the engine does not come up, answers no request, or is lost.
        KeyboardInterrupt: on Ctrl-C, with a run folder left behind if there is something in it.
    """
    redactor = redactor_of(values, command)

    def tell(line: str) -> None:
        echo(redactor.clean(line))

    try:
        return _run(values, command, tell, progress, redactor, figures)
    except TracekitError as error:
        hint = None if error.hint is None else redactor.clean(error.hint)
        # Without what it came from, which would be shown in full where nobody catches it.
        raise type(error)(redactor.clean(error.message), hint=hint) from None


def _run(
    values: Mapping[str, Any],
    command: list[str],
    echo: Echo,
    progress: Progress | None,
    redactor: Redactor,
    figures: Figures | None,
) -> Path:
    name = str(values.get("engine") or DEFAULT_ENGINE)
    wanted = _wanted(values, is_small=name == DEFAULT_ENGINE and _is_without_gpu())
    engine = _engine(name, values)
    asked = values.get("model") if name == DEFAULT_ENGINE else values.get("served_model")
    model = [Path(str(asked)).name] if asked else []
    target = Path(values["out"]) if values.get("out") else default_target("serve", name, *model)
    with (
        RunFolder(target, force=bool(values.get("force"))) as folder,
        signals_as_interrupt(),
    ):
        try:
            facts = clean_facts(engine.start(folder.path, echo), redactor)
            plan, source, notes = _plan(wanted, facts)
            if name != DEFAULT_ENGINE:
                raise_file_limit(min(wanted.concurrency or len(plan.prompts), len(plan.prompts)))
            echo(_announcement(wanted, name))
            with ProgressLine() as line:
                result = engine.run(plan, folder.path, progress or line)
        finally:
            engine.close()
        result.notes[:0] = notes
        clean_result(result, redactor)
        run_manifest = serving_manifest(wanted, facts, result, name, command, source, redactor)
        measured = summary.counted(result.records)
        if result.interrupted and all(record.outcome == "cancelled" for record in measured):
            raise KeyboardInterrupt
        requests_file.write(result.records, folder.path)
        folder.commit(run_manifest)
    told = [] if figures is None else figures(target)
    for text in summary.lines(run_manifest, result.records, target, told):
        echo(text)
    if result.interrupted:
        raise KeyboardInterrupt
    if run_manifest.outcome != "ok":
        word = "incomplete: " if run_manifest.outcome == "incomplete" else ""
        raise WorkloadError(
            f"{target}: {word}{run_manifest.reason}",
            hint=f"each request's outcome is in {target}/{requests_file.FILE_NAME}",
        )
    return target


def engine_names() -> list[str]:
    """Return the engines, which are found by being there."""
    modules = iter_modules(engines.__path__)
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
    engine: ServingEngine = import_module(f"{engines.__name__}.{name}").create(values)
    return engine


def _wanted(values: Mapping[str, Any], *, is_small: bool) -> WantedLoad:
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
    return WantedLoad(
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


def _plan(wanted: WantedLoad, facts: EngineFacts) -> tuple[LoadPlan, str, list[str]]:
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


def _announcement(wanted: WantedLoad, engine: str) -> str:
    bound = f", {wanted.concurrency} in flight at most" if wanted.concurrency else ""
    return (
        f"sending {wanted.request_count} requests ({wanted.prompt_token_count} tokens in, "
        f"{wanted.max_new_token_count} out, {wanted.arrival}{bound}) to {engine}"
    )


def _is_without_gpu() -> bool:
    return accelerator_count() == 0
