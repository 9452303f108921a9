"""The options of `tracekit collect`, which bench and sweep take some of."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from tracekit.errors import UsageError

from .command_line import (
    COUNT,
    PATH,
    POSITIVE,
    PROGRAM,
    SIZE,
    STAGES,
    TRAINING,
    Option,
    given,
    number,
)
from .training.opt import COMPRESSIONS

_EVERY = (*STAGES, PROGRAM)
_of_all = partial(Option, stages=_EVERY)
_of_method = partial(Option, group="Method")
_of_data = partial(Option, group="Model and data")
_of_steps = partial(Option, group="Steps", stages=(*TRAINING, PROGRAM))
_of_profiler = partial(Option, group="Profiler", stages=_EVERY, is_flag=True)
_of_program = partial(Option, group="A program of your own", stages=(PROGRAM,))
_of_serve = partial(Option, stages=("serve",))
_of_load = partial(_of_serve, group="Load")
_of_server = partial(_of_serve, group="Server (all engines but transformers)")
_of_window = partial(_of_serve, group="Profiler")
_tokens = partial(_of_load, type=POSITIVE, metavar="TOKENS")
_seconds = partial(_of_serve, type=number(), metavar="SECONDS")

OUT = _of_all(
    "--out",
    "the run folder to write; it appears only when it is whole",
    PATH,
    default="runs/<stage>-<model>-<opt>-<time>",
    metavar="DIR",
)
FORCE = _of_all("--force", "replace the run folder if it exists", is_flag=True)

OPTIONS: tuple[Option, ...] = (
    _of_all("--stage", "what to run", click.Choice(STAGES), default="pretrain"),
    OUT,
    FORCE,
    _of_data(
        "--model",
        "model: tiny, llama2-7b, llama2-13b, llama2-70b, a CONFIG.json or a model's FOLDER; "
        "random weights, nothing is downloaded",
        default="tiny; llama2-7b with a GPU",
        metavar="MODEL",
        stages=STAGES,
    ),
    _of_data("--layers", "cut the model down to its first N layers", COUNT, stages=STAGES),
    _of_data(
        "--precision",
        "type of the weights and of the arithmetic",
        click.Choice(("bf16", "fp16", "fp32")),
        default="bf16",
        stages=STAGES,
    ),
    _of_data("--seed", "seed of weights and data", COUNT, default=0, stages=STAGES),
    _of_method(
        "--opt",
        "methods joined by +: Naive, Z1, Z2, Z3, O, R, F, Q, L, QL, LFA, PT, "
        + ", ".join(f"GC:{name}" for name in COMPRESSIONS),
        default="Naive",
        metavar="OPT",
    ),
    _of_method(
        "--engine",
        "framework: deepspeed, ddp, fsdp2 or megatron; serve: transformers (embedded), lightllm, "
        "vllm, sglang, tgi or openai (any compatible server)",
        default="deepspeed with Z or O, else ddp",
        metavar="ENGINE",
        stages=STAGES,
    ),
    _of_method("--nproc", "local ranks", POSITIVE, default=1),
    _of_method("--tp", "tensor parallel size of --engine megatron", POSITIVE, default=1),
    _of_method(
        "--gc-rank",
        "rank of the low-rank factors of GC:powersgd and GC:acpsgd",
        POSITIVE,
        default=4,
    ),
    _of_method(
        "--gc-density",
        "share of the gradient that GC:topk sends",
        number(1),
        default=0.01,
        metavar="SHARE",
    ),
    _of_data("--batch-size", "sequences of a rank in a step", POSITIVE, default=1),
    _of_data("--seq-len", "tokens of a sequence", COUNT, default=350),
    _of_data(
        "--fixed-batch",
        "train every step on the same batch, so that the loss must fall",
        is_flag=True,
    ),
    _of_data("--learning-rate", "learning rate of AdamW", number(), default=1e-4, metavar="RATE"),
    _of_steps(
        "--preset",
        "settings of the paper: sequence length 350, 30 warm-up and 100 measured steps, 3 repeats, "
        "10 profiled steps",
        click.Choice(("paper",)),
        stages=TRAINING,
    ),
    _of_steps("--warmup", "steps that are not counted", COUNT, default="5; 1 on a CPU"),
    _of_steps(
        "--steps",
        "measured steps, without profiler and ranges; PROGRAM: as many again after the profile",
        POSITIVE,
        default="20; 3 on a CPU",
    ),
    _of_steps(
        "--repeats",
        "how often the measured steps are repeated",
        POSITIVE,
        default="3; 2 on a CPU",
        stages=TRAINING,
    ),
    _of_steps(
        "--profile-steps",
        "profiled steps, after the measured ones",
        POSITIVE,
        default="3; 2 on a CPU",
    ),
    _of_profiler("--with-stack", "record Python stacks in the trace"),
    _of_profiler(
        "--with-flops",
        "let the profiler count floating-point operations itself",
        stages=(*TRAINING, PROGRAM),
    ),
    _of_profiler("--profile-memory", "record the allocator's events"),
    _of_profiler("--no-shapes", "record no shapes of arguments"),
    _of_profiler(
        "--backward-ranges",
        "record ranges of modules in backward passes too, by hooks that slow them; the modules "
        "of backward work are known without",
        stages=(*TRAINING, PROGRAM),
    ),
    _of_profiler(
        "--nvtx",
        "make ranges NVTX ranges too, as is done where Nsight runs the program",
        stages=(*TRAINING, PROGRAM),
    ),
    _of_profiler(
        "--no-light-steps",
        "GPU: record no further steps with the device's work alone",
        stages=(*TRAINING, PROGRAM),
    ),
    _of_profiler("--power", "record the energy of processors (RAPL) and the power of NVIDIA GPUs"),
    Option(
        "--memory-limit",
        "memory that a rank may use, as 16GB; what needs more is recorded as out of memory",
        SIZE,
        group="Limits",
    ),
    _of_program(
        "--ranks",
        "PROGRAM: which ranks leave a trace: 0,8,16-23, first-of-node or all",
        default="all up to 8 ranks, else first-of-node",
        metavar="RANKS",
    ),
    _of_program(
        "--windows",
        "PROGRAM: how many windows of steps are profiled",
        POSITIVE,
        default=1,
        metavar="K",
    ),
    _of_program("--every", "PROGRAM: steps from one window to the next", POSITIVE),
    _of_program(
        "--on-demand",
        "PROGRAM: profile another window when this file is made or touched; a number in it is how "
        "many steps",
        PATH,
        metavar="FILE",
    ),
    _of_program(
        "--on-signal",
        "PROGRAM: profile another window when tracekit gets this signal, which the program then "
        "does not",
        click.Choice(("USR1", "USR2")),
    ),
    _of_load("--requests", "requests to send", POSITIVE, default="1000; transformers on a CPU: 32"),
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
    _of_load("--concurrency", "requests in flight at most", POSITIVE),
    _of_load(
        "--warmup-requests",
        "requests that are sent before the others and not counted",
        COUNT,
        default="8; transformers on a CPU: 2",
    ),
    _seconds("--timeout", "seconds after which a request is given up", default=600, group="Load"),
    _of_load(
        "--retries",
        "further attempts after a refused or broken connection, a 429 or a 5xx",
        COUNT,
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
        PATH,
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
        COUNT,
        default="that of the model, where the server tells; else 8192",
    ),
    _seconds(
        "--startup-timeout",
        "seconds until the server must be healthy",
        default="600 with --launch, else 10",
        group="Server (all engines but transformers)",
    ),
    _seconds(
        "--trace-timeout",
        "seconds to wait for the server's traces to be complete",
        default=600,
        group="Server (all engines but transformers)",
    ),
    _of_load(
        "--cache-blocks",
        "blocks of the key-value cache of --engine transformers",
        POSITIVE,
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
    _of_load(
        "--max-batch-requests",
        "requests that run at once in --engine transformers at most",
        POSITIVE,
        default="all that are in flight",
    ),
    _of_window("--no-profile", "latency and throughput only", is_flag=True),
    _of_window(
        "--profile-after",
        "when the profile starts: requests finished (100), a share of them (10%), or a time (2s)",
        default="40% of the time that the load took; a short load from its start",
        metavar="POINT",
    ),
    _of_window(
        "--profile-for",
        "how long it lasts: requests, a share of them, or a time",
        default="2s, a short load to its end; 64 steps on transformers",
        metavar="POINT",
    ),
)


def validated(values: Mapping[str, Any], *, is_program: bool = False) -> dict[str, Any]:
    """Check the values that options were given against their stage, or against a user's program.

    Returns what was given, and always `stage`; None and False mean that an option was not.

    Raises:
        UsageError: a value has the wrong form, or the stage or program does not take it.
    """
    asked = given(values, OPTIONS)
    stage = asked.setdefault("stage", "pretrain")
    for option in OPTIONS:
        if option.key not in asked or (PROGRAM if is_program else stage) in option.stages:
            continue
        name = option.opts[0]
        if is_program:
            raise UsageError(
                f"{name} is for tracekit's own workloads; what comes after -- decides this itself"
            )
        if option.stages == (PROGRAM,):
            raise UsageError(
                f"{name} is for a program of your own", hint="tracekit collect … -- python train.py"
            )
        takers = " and ".join(taker for taker in option.stages if taker in STAGES)
        raise UsageError(f"{name} is for --stage {takers}, not for {stage}")
    return asked
