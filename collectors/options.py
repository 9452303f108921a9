"""Options of `tracekit collect`, some of which bench and sweep share."""

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
_of_model = partial(_of_data, stages=STAGES)
_of_steps = partial(Option, group="Steps", stages=(*TRAINING, PROGRAM))
_of_profiler = partial(Option, group="Profiler", stages=_EVERY, is_flag=True)
_of_recorder = partial(_of_profiler, stages=(*TRAINING, PROGRAM))
_of_program = partial(Option, group="Your own program", stages=(PROGRAM,))
_of_serve = partial(Option, stages=("serve",))
_of_load = partial(_of_serve, group="Load")
_of_server = partial(_of_serve, group="Server (all engines except transformers)")
_of_window = partial(_of_serve, group="Profiler")
_tokens = partial(_of_load, type=POSITIVE, metavar="TOKENS")
_seconds = partial(_of_serve, type=number(), metavar="SECONDS")

OUT = _of_all(
    "--out",
    "run folder to write; appears only when complete",
    PATH,
    default="runs/<stage>-<model>-<opt>-<time>",
    metavar="DIR",
)
FORCE = _of_all("--force", "replace the run folder if it exists", is_flag=True)

OPTIONS: tuple[Option, ...] = (
    _of_all("--stage", "built-in workload to run", click.Choice(STAGES), default="pretrain"),
    OUT,
    FORCE,
    _of_model(
        "--model",
        "model: tiny, llama2-7b, llama2-13b, llama2-70b, a CONFIG.json, or a model "
        "FOLDER; weights are random, nothing is downloaded",
        default="tiny; llama2-7b on a GPU",
        metavar="MODEL",
    ),
    _of_model("--layers", "use only the first N layers of the model", COUNT),
    _of_model(
        "--precision",
        "type of weights and compute",
        click.Choice(("bf16", "fp16", "fp32")),
        default="bf16",
    ),
    _of_model("--seed", "seed of weights and data", COUNT, default=0),
    _of_method(
        "--opt",
        "optimizations joined by +: Naive, Z1, Z2, Z3 (ZeRO), O (offload), R (recomputation), "
        "F (FlashAttention), Q (4-bit weights), L (LoRA), QL (QLoRA), LFA (LoRA-FA), PT (prompt "
        "tuning), " + ", ".join(f"GC:{name}" for name in COMPRESSIONS) + " (gradient compression)",
        default="Naive",
        metavar="OPT",
    ),
    _of_method(
        "--engine",
        "framework: deepspeed, ddp, fsdp2, or megatron; for serve: transformers "
        "(embedded), lightllm, vllm, sglang, tgi, or openai (any compatible server)",
        default="deepspeed for Z or O, else ddp",
        metavar="ENGINE",
        stages=STAGES,
    ),
    _of_method("--nproc", "local ranks", POSITIVE, default=1),
    _of_method("--tp", "tensor-parallel size of --engine megatron", POSITIVE, default=1),
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
    _of_data("--batch-size", "sequences per rank and step", POSITIVE, default=1),
    _of_data("--seq-len", "tokens per sequence", COUNT, default=350),
    _of_data(
        "--fixed-batch",
        "train on the same batch in every step, so the loss must fall",
        is_flag=True,
    ),
    _of_data("--learning-rate", "learning rate of AdamW", number(), default=1e-4, metavar="RATE"),
    _of_steps(
        "--preset",
        "settings of arXiv 2311.03687: sequence length 350, 30 warm-up and 100 measured steps, "
        "3 repeats, 10 profiled steps",
        click.Choice(("paper",)),
        stages=TRAINING,
    ),
    _of_steps("--warmup", "warm-up steps", COUNT, default="5; 1 on a CPU"),
    _of_steps(
        "--steps",
        "measured steps, without profiler or ranges; of PROGRAM, before and after the profile",
        POSITIVE,
        default="20; 3 on a CPU",
    ),
    _of_steps(
        "--repeats",
        "repeats of the measured steps",
        POSITIVE,
        default="3; 2 on a CPU",
        stages=TRAINING,
    ),
    _of_steps(
        "--profile-steps",
        "profiled steps after the measured ones",
        POSITIVE,
        default="3; 2 on a CPU",
    ),
    _of_profiler("--with-stack", "record Python stacks in the trace"),
    _of_recorder("--with-flops", "let the profiler estimate FLOPs"),
    _of_profiler("--profile-memory", "record allocator events"),
    _of_profiler("--no-shapes", "do not record argument shapes"),
    _of_recorder(
        "--backward-ranges",
        "also record module ranges in backward passes, with hooks that slow them; "
        "modules of backward work are known without this",
    ),
    _of_recorder("--nvtx", "also emit NVTX ranges; default when Nsight runs the program"),
    _of_recorder("--no-light-steps", "do not record extra steps with GPU activity only (on a GPU)"),
    _of_profiler("--power", "record the energy of processors (RAPL) and the power of NVIDIA GPUs"),
    Option(
        "--memory-limit",
        "memory limit per rank, such as 16GB; exceeding it is recorded as out of memory",
        SIZE,
        group="Limits",
    ),
    _of_program(
        "--ranks",
        "PROGRAM: ranks to record: 0,8,16-23, first-of-node, or all",
        default="all up to 8 ranks, else first-of-node",
        metavar="RANKS",
    ),
    _of_program(
        "--windows",
        "PROGRAM: number of profiled windows of steps",
        POSITIVE,
        default=1,
        metavar="K",
    ),
    _of_program("--every", "PROGRAM: steps between two windows", POSITIVE),
    _of_program(
        "--on-demand",
        "PROGRAM: profile another window when this file is created or touched; it may "
        "contain the number of steps",
        PATH,
        metavar="FILE",
    ),
    _of_program(
        "--on-signal",
        "PROGRAM: profile another window when tracekit receives this signal (the program "
        "does not receive it)",
        click.Choice(("USR1", "USR2")),
    ),
    _of_load("--requests", "requests to send", POSITIVE, default="1000; transformers on a CPU: 32"),
    _tokens("--prompt-len", "tokens per prompt", default="512; transformers on a CPU: 64"),
    _tokens(
        "--max-new-tokens",
        "output tokens per request",
        default="128; transformers on a CPU: 32",
    ),
    _of_load(
        "--arrival",
        "burst (all at once), poisson:RATE, or constant:RATE, in requests per second",
        default="burst",
        metavar="PATTERN",
    ),
    _of_load("--concurrency", "maximum number of requests in flight", POSITIVE),
    _of_load(
        "--warmup-requests",
        "warm-up requests, which are not counted",
        COUNT,
        default="8; transformers on a CPU: 2",
    ),
    _seconds("--timeout", "seconds until a request is abandoned", default=600, group="Load"),
    _of_load(
        "--retries",
        "retries after a refused or broken connection, a 429, or a 5xx",
        COUNT,
        default=0,
    ),
    _of_server(
        "--url", "the server", default="http://127.0.0.1 with the port of the engine", metavar="URL"
    ),
    _of_server(
        "--launch",
        "command that starts the server, which is stopped after the run; let it listen only on "
        "127.0.0.1 (--host, TGI: --hostname); {trace_dir} is replaced by the trace folder",
        metavar="COMMAND",
    ),
    _of_server(
        "--trace-dir",
        "folder to which the server writes its traces (LightLLM: LIGHTLLM_TRACE_DIR, "
        "vLLM: torch_profiler_dir); not needed with --launch or sglang",
        PATH,
        metavar="DIR",
    ),
    _of_server(
        "--served-model",
        "model name in requests",
        default="first model that the server lists",
        metavar="NAME",
    ),
    _of_server(
        "--request-body", "members to add to the JSON body of every request", metavar="JSON"
    ),
    _of_server(
        "--vocab-size",
        "upper bound of token ids in prompts",
        COUNT,
        default="from the server's model if known, else 8192",
    ),
    _seconds(
        "--startup-timeout",
        "seconds to wait until the server is healthy",
        default="600 with --launch, else 10",
        group="Server (all engines except transformers)",
    ),
    _seconds(
        "--trace-timeout",
        "seconds to wait for complete traces of the server",
        default=600,
        group="Server (all engines except transformers)",
    ),
    _of_load(
        "--cache-blocks",
        "blocks in the KV cache of --engine transformers",
        POSITIVE,
        default="enough for the load; all free memory on a GPU",
    ),
    _tokens(
        "--page-size", "tokens per block of that cache", default="16; the engine's default on a GPU"
    ),
    _tokens(
        "--max-batch-tokens",
        "maximum number of tokens per step of --engine transformers",
        default="128; the engine's default on a GPU",
    ),
    _of_load(
        "--max-batch-requests",
        "maximum number of running requests of --engine transformers",
        POSITIVE,
        default="all requests in flight",
    ),
    _of_window("--no-profile", "measure only latency and throughput", is_flag=True),
    _of_window(
        "--profile-after",
        "when to start the profile: after a number of requests (100), a share of them "
        "(10%), or a time (2s)",
        default="40% of the load's duration; its start for a short load",
        metavar="POINT",
    ),
    _of_window(
        "--profile-for",
        "length of the profile: a number or share of requests, or a time",
        default="2s, or to the end of a short load; 64 steps with transformers",
        metavar="POINT",
    ),
)


def validated(values: Mapping[str, Any], *, is_program: bool = False) -> dict[str, Any]:
    """Return the values that were passed (not None or False), and always `stage`."""
    options = given(values, OPTIONS)
    stage = options.setdefault("stage", "pretrain")
    for option in OPTIONS:
        if option.key not in options or (PROGRAM if is_program else stage) in option.stages:
            continue
        name = option.opts[0]
        if is_program:
            raise UsageError(
                f"{name} is only for built-in workloads; the command after -- decides this"
            )
        if option.stages == (PROGRAM,):
            raise UsageError(
                f"{name} needs a program", hint="tracekit collect … -- python train.py"
            )
        takers = " and ".join(taker for taker in option.stages if taker in STAGES)
        raise UsageError(f"{name} is for --stage {takers}, not for {stage}")
    return options
