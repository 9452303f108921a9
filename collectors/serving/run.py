"""`--stage serve`: puts a serving engine under load and profiles a window of it.

If requests fail, the engine is lost, or the user presses Ctrl-C, the run folder has outcome
`incomplete` and covers the answered requests; without any, the outcome is `failed`. After a second
Ctrl-C, or one before the first answer, no run folder is left.

Secrets from arguments, URLs, or the environment are never written or shown.

Prompts are synthetic and depend only on the seed: random token ids if the engine accepts them, else
random words, whose tokens the engine counts.
"""

from __future__ import annotations

import base64
import os
import random
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from msgspec.structs import replace

from tracekit.errors import TracekitError, UsageError, WorkloadError
from tracekit.manifest import Load
from tracekit.redaction import (
    Redactor,
    secrets_in_environment,
    secrets_in_text,
    secrets_in_words,
)
from tracekit.units import NS_PER_S

from ..machine.hardware import accelerator_count
from ..process.ending import signals_as_interrupt
from ..progress import ProgressLine
from ..run.environment import require
from ..run.folder import RunFolder, default_target
from . import engines, records
from .engine import Echo, EngineFacts, ServingEngine
from .manifest import counted, serving_manifest, summary_lines
from .plan import LoadPlan, LoadResult, ProfilePlan, Progress, Prompt, parse_arrival, parse_mark

Figures = Callable[[Path], list[str]]

DEFAULT_ENGINE = "transformers"
_SMALL = {"requests": 32, "prompt_len": 64, "max_new_tokens": 32, "warmup_requests": 2}
_PAPER = {"requests": 1000, "prompt_len": 512, "max_new_tokens": 128, "warmup_requests": 8}
_TIMEOUT_S = 600.0
_OF_SERVERS = ("url", "launch", "trace_dir", "served_model", "request_body")
# Options whose values may contain a secret.
_TEXTS = ("launch", "request_body", "url")


def run(
    values: Mapping[str, Any],
    command: list[str],
    echo: Echo,
    progress: Progress | None = None,
    figures: Figures | None = None,
) -> Path:
    """Put an engine under load and return the run folder.

    `progress` receives the state of the load; by default it is a line on the terminal. `figures`
    returns summary lines from analyses of a run folder.
    """
    redactor = redactor_of(values, command)
    try:
        return _run(
            values, command, lambda line: echo(redactor.clean(line)), progress, redactor, figures
        )
    except TracekitError as error:
        hint = None if error.hint is None else redactor.clean(error.hint)
        # A traceback would show the unredacted cause.
        raise type(error)(redactor.clean(error.message), hint=hint) from None


def redactor_of(values: Mapping[str, Any], command: Sequence[str] = ()) -> Redactor:
    result = secrets_in_environment(os.environ) | secrets_in_words(command)
    for key in _TEXTS:
        result |= secrets_in_text(values.get(key) or "")
    # The text may not be a valid URL, so it is not parsed as one.
    user, at, _ = (values.get("url") or "").rpartition("@")
    if at:
        user = user.rpartition("://")[2]
        plain = urllib.parse.unquote(user)
        for text in (user, plain):
            result.add(text.partition(":")[2] or text)
        # As sent in HTTP basic authentication.
        result.add(base64.b64encode(plain.encode()).decode())
    return Redactor(result)


def _run(
    values: Mapping[str, Any],
    command: list[str],
    echo: Echo,
    progress: Progress | None,
    redactor: Redactor,
    figures: Figures | None,
) -> Path:
    name = values.get("engine") or DEFAULT_ENGINE
    load, plan = _wanted(values, is_small=name == DEFAULT_ENGINE and accelerator_count() == 0)
    engine = _engine(name, values, redactor)
    model_name = values.get("model") if name == DEFAULT_ENGINE else values.get("served_model")
    model = [Path(model_name).name] if model_name else []
    target = values.get("out") or default_target("serve", name, *model)
    with (
        RunFolder(target, force=bool(values.get("force"))) as folder,
        signals_as_interrupt(),
    ):
        try:
            facts: EngineFacts = redactor.clean_json(engine.start(folder.path, echo))
            plan, source, notes = _with_prompts(plan, load, facts)
            echo(_announcement(load, name))
            with ProgressLine() as line:
                show = progress or (lambda state: line.show(str(state), state.stage))
                result: LoadResult = redactor.clean_json(engine.run(plan, folder.path, show))
        finally:
            engine.close()
        result.notes[:0] = notes
        run_manifest = serving_manifest(
            load, plan.seed, facts, result, name, command, source, redactor
        )
        measured = counted(result.records)
        if result.interrupted and all(record.outcome == "cancelled" for record in measured):
            raise KeyboardInterrupt
        records.write(result.records, folder.path)
        folder.commit(run_manifest)
    lines = [] if figures is None else figures(target)
    for text in summary_lines(run_manifest, result.records, target, lines):
        echo(text)
    if result.interrupted:
        raise KeyboardInterrupt
    if run_manifest.outcome != "ok":
        word = "incomplete: " if run_manifest.outcome == "incomplete" else ""
        raise WorkloadError(
            f"{target}: {word}{run_manifest.reason}",
            hint=f"the outcome of each request is in {target}/{records.FILE_NAME}",
        )
    return target


def engine_names() -> list[str]:
    modules = iter_modules(engines.__path__)
    return sorted(module.name for module in modules if not module.name.startswith("_"))


def _engine(name: str, values: Mapping[str, Any], redactor: Redactor) -> ServingEngine:
    names = engine_names()
    if name not in names:
        raise UsageError(
            f"--engine {name!r} is not a serving engine", hint=f"engines: {', '.join(names)}"
        )
    option = next((key for key in _OF_SERVERS if values.get(key) is not None), None)
    if name == DEFAULT_ENGINE and option is not None:
        others = ", ".join(other for other in names if other != DEFAULT_ENGINE)
        raise UsageError(
            f"--{option.replace('_', '-')} needs a server; --engine transformers has none",
            hint=f"choose an engine with a server: --engine {others}",
        )
    if name != DEFAULT_ENGINE:
        require({"httptools": "httptools", "psutil": "psutil"}, f"--engine {name}", "serve")
    engine: ServingEngine = import_module(f"{engines.__name__}.{name}").create(values, redactor)
    return engine


def _wanted(values: Mapping[str, Any], *, is_small: bool) -> tuple[Load, LoadPlan]:
    defaults = _SMALL if is_small else _PAPER
    wanted = {**defaults, **values}
    requests = wanted["requests"]
    arrival = parse_arrival(values.get("arrival") or "burst")
    load = Load(
        request_count=requests,
        prompt_token_count=wanted["prompt_len"],
        max_new_token_count=wanted["max_new_tokens"],
        arrival=str(arrival),
        concurrency=values.get("concurrency"),
        warmup_count=wanted["warmup_requests"],
        retry_count=values.get("retries") or 0,
    )
    after, length = (
        None
        if values.get(key) is None
        else parse_mark(values[key], requests, f"--{key.replace('_', '-')}")
        for key in ("profile_after", "profile_for")
    )
    seed = values.get("seed") or 0
    return load, LoadPlan(
        prompts=(),
        arrival_ns=arrival.schedule_ns(requests, seed),
        max_new_token_count=load.max_new_token_count,
        concurrency=load.concurrency,
        timeout_ns=round(values.get("timeout", _TIMEOUT_S) * NS_PER_S),
        retry_count=load.retry_count,
        seed=seed,
        profile=ProfilePlan(not values.get("no_profile"), after, length),
    )


def _with_prompts(
    plan: LoadPlan, load: Load, facts: EngineFacts
) -> tuple[LoadPlan, str, list[str]]:
    count, token_count, seed = load.request_count, load.prompt_token_count, plan.seed
    limit = facts.max_token_count
    if limit is not None and token_count + load.max_new_token_count > limit:
        raise UsageError(
            f"a request of {token_count} + {load.max_new_token_count} tokens exceeds the "
            f"engine's limit of {limit}",
            hint="lower --prompt-len or --max-new-tokens",
        )
    # The warm-up and the profiled pass have their own prompts, because a prefix cache would skip
    # repeated prefills.
    total = 2 * count + load.warmup_count
    notes = []
    if facts.count_tokens is None:
        source = "token_ids"
        prompts = token_id_prompts(total, token_count, facts.vocabulary_size, seed)
    else:
        prompts, measured_count = text_prompts(total, token_count, seed, facts.count_tokens)
        source = "text" if measured_count is None else "usage"
        if measured_count is None:
            notes.append(
                f"prompts have {token_count} words: the engine accepts no token ids and "
                "does not report the number of tokens of a text"
            )
        elif measured_count != token_count:
            notes.append(
                f"prompts have about {measured_count} tokens instead of {token_count}, which no "
                "number of words yields"
            )
    plan = replace(
        plan,
        prompts=prompts[:count],
        warmup_prompts=prompts[2 * count :],
        profile_prompts=prompts[count : 2 * count],
    )
    return plan, source, notes


def _announcement(load: Load, engine: str) -> str:
    bound = f", at most {load.concurrency} in flight" if load.concurrency else ""
    return (
        f"sending {load.request_count} requests ({load.prompt_token_count} tokens in, "
        f"{load.max_new_token_count} out, {load.arrival}{bound}) to {engine}"
    )


UNKNOWN_VOCABULARY_SIZE = 8192
"""All common models have ids below this number."""

_SPECIAL_ID_COUNT = 512
"""The first ids are special tokens and single bytes; large vocabularies skip them."""

_PROBE_COUNT = 5
# Maximum plausible number of words per token, in case a server reports wrong token counts.
_MAX_WORDS_PER_TOKEN = 16

# Short and common words, which are single tokens in most tokenizers.
_TEXT = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government "
    "number night point home water room mother area money story fact month lot right study book "
    "eye job word business issue side kind head house service friend father power hour game line "
    "end member law car city community name president team minute idea kid body information back "
    "parent face others level office door health person art war history party result change "
    "morning reason research girl guy moment air teacher force education"
)
_WORDS = tuple(_TEXT.split())


def token_id_prompts(
    count: int, token_count: int, vocabulary_size: int | None, seed: int
) -> list[Prompt]:
    size = vocabulary_size or UNKNOWN_VOCABULARY_SIZE
    first = min(_SPECIAL_ID_COUNT, size // 4)
    source = random.Random(seed)
    ids = range(first, size)
    return [Prompt(token_count, token_ids=source.choices(ids, k=token_count)) for _ in range(count)]


def text_prompts(
    count: int, token_count: int, seed: int, count_tokens: Callable[[str], int | None]
) -> tuple[list[Prompt], int | None]:
    """Return prompts of random words, and the number of tokens that the engine counted.

    Prompts are permutations of the same words, so their token counts hardly differ, and a few calls
    of `count_tokens` are enough.
    """
    source = random.Random(seed)
    words = source.choices(_WORDS, k=max(1, token_count))
    closest: tuple[int, list[str]] | None = None
    counted: int | None = None
    for _ in range(_PROBE_COUNT):
        counted = count_tokens(" ".join(words)) or None
        if counted is None:
            break
        if closest is None or abs(counted - token_count) < abs(closest[0] - token_count):
            closest = (counted, words)
        missing = token_count - counted
        if missing == 0:
            break
        words = _resized(words, missing, counted, source)[: _MAX_WORDS_PER_TOKEN * token_count]
    if closest is not None:
        counted, words = closest
    prompts = []
    for _ in range(count):
        shuffled = source.sample(words, k=len(words))
        prompts.append(Prompt(token_count if counted is None else counted, text=" ".join(shuffled)))
    return prompts, counted


def _resized(words: list[str], missing: int, counted: int, source: random.Random) -> list[str]:
    per_word = counted / len(words)
    # Change at least one word; otherwise, the next query would be the same.
    change = round(missing / per_word) or (1 if missing > 0 else -1)
    if change > 0:
        change = min(change, _MAX_WORDS_PER_TOKEN * (len(words) + missing))
        return words + source.choices(_WORDS, k=change)
    return words[: max(1, len(words) + change)]
