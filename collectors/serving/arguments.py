"""The arguments of `--stage serve`, and how those that are numbers are read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tracekit.errors import UsageError

from ..command.argument import Argument

_of_serve = partial(Argument, stages=("serve",))
_of_load = partial(_of_serve, group="Load")
_of_server = partial(_of_serve, group="Server (all engines but transformers)")
_of_profiler = partial(_of_serve, group="Profiler")
_requests = partial(_of_load, kind="count", metavar="N")
_tokens = partial(_of_load, kind="count", metavar="TOKENS")

ARGUMENTS: tuple[Argument, ...] = (
    _of_serve(
        "--engine",
        "transformers (embedded), lightllm, vllm, sglang, tgi or openai (any compatible server)",
        default="transformers",
        metavar="ENGINE",
        group="Method",
    ),
    _requests("--requests", "requests to send", default="1000; transformers on a CPU: 32"),
    _tokens("--prompt-len", "tokens of each prompt", default="512; transformers on a CPU: 64"),
    _tokens(
        "--max-new-tokens",
        "tokens that each request asks for",
        default="128; transformers on a CPU: 32",
    ),
    _of_load(
        "--arrival",
        "burst (all at once), poisson:RATE or constant:RATE, in requests per second",
        default="burst",
        metavar="PATTERN",
    ),
    _requests("--concurrency", "requests in flight at most"),
    _requests(
        "--warmup-requests",
        "requests that are sent before the others and not counted",
        default="8; transformers on a CPU: 2",
    ),
    _of_load(
        "--timeout",
        "seconds after which a request is given up",
        kind="number",
        default=600,
        metavar="SECONDS",
    ),
    _requests(
        "--retries",
        "further attempts after a refused or broken connection, a 429 or a 5xx",
        default=0,
    ),
    _of_server(
        "--url", "the server", default="http://127.0.0.1 and the engine's own port", metavar="URL"
    ),
    _of_server(
        "--launch",
        "command that starts the server, which is ended after the run; have it listen on 127.0.0.1 "
        "alone (--host, TGI: --hostname); {trace_dir} in it stands for the folder of the traces",
        metavar="COMMAND",
    ),
    _of_server(
        "--trace-dir",
        "folder that the server writes its traces to (LightLLM: LIGHTLLM_TRACE_DIR, vLLM: "
        "torch_profiler_dir); not needed with --launch or sglang",
        kind="path",
        metavar="DIR",
    ),
    _of_server(
        "--served-model",
        "the model's name in requests",
        default="the first that the server lists",
        metavar="NAME",
    ),
    _of_server("--request-body", "members to add to the JSON of every request", metavar="JSON"),
    _of_server(
        "--vocab-size",
        "token ids of prompts are below it",
        kind="count",
        default="that of the model, where the server tells; else 8192",
        metavar="N",
    ),
    _of_server(
        "--startup-timeout",
        "seconds until the server must be healthy",
        kind="number",
        default="600 with --launch, else 10",
        metavar="SECONDS",
    ),
    _of_server(
        "--trace-timeout",
        "seconds to wait for the server's traces to be complete",
        kind="number",
        default=600,
        metavar="SECONDS",
    ),
    _requests(
        "--cache-blocks",
        "blocks of the key-value cache of --engine transformers",
        default="what the load needs; all free memory on a GPU",
    ),
    _tokens(
        "--page-size", "tokens of a block of that cache", default="16; the engine's own on a GPU"
    ),
    _tokens(
        "--max-batch-tokens",
        "tokens of a step of --engine transformers at most",
        default="128; the engine's own on a GPU",
    ),
    _of_profiler("--no-profile", "latency and throughput only", kind="flag"),
    _of_profiler(
        "--profile-after",
        "when the profile starts: requests finished (100), a share of them (10%), or a time (2s)",
        default="40% of the time that the load took; a short load from its start",
        metavar="POINT",
    ),
    _of_profiler(
        "--profile-for",
        "how long it lasts: requests, a share of them, or a time",
        default="2s, a short load to its end; 64 steps on transformers",
        metavar="POINT",
    ),
    _of_profiler("--with-stack", "record Python stacks in the trace", kind="flag"),
    _of_profiler("--profile-memory", "record the allocator's events", kind="flag"),
    _of_profiler("--no-shapes", "record no shapes of arguments", kind="flag"),
)


def count_of(values: Mapping[str, Any], key: str, default: int | None = None) -> int | None:
    """Return an argument, by `Argument.key`; `UsageError` unless it is 1 or more."""
    count: int | None = values.get(key, default)
    if count is not None and count < 1:
        raise UsageError(f"--{key.replace('_', '-')} is {count}, and must be 1 or more")
    return count


def seconds_of(values: Mapping[str, Any], key: str, default_s: float) -> float:
    """Return an argument, by `Argument.key`; `UsageError` unless it is more than 0."""
    seconds: float = values.get(key, default_s)
    if seconds <= 0:
        raise UsageError(f"--{key.replace('_', '-')} is {seconds:g}, and must be more than 0")
    return seconds
