"""The arguments of `--stage pretrain` and `--stage finetune`."""

from __future__ import annotations

from .arguments import Argument

ARGUMENTS: tuple[Argument, ...] = (
    Argument(
        "--opt",
        "methods joined by +: Naive, Z1, Z2, Z3, O, R, F, Q, L, QL, LFA, PT, GC:powersgd, "
        "GC:acpsgd, GC:topk, GC:signsgd",
        default="Naive",
        metavar="OPT",
        group="Method",
    ),
    Argument(
        "--engine",
        "framework: deepspeed, ddp, fsdp2 or megatron",
        default="deepspeed with Z or O, else ddp",
        metavar="ENGINE",
        group="Method",
    ),
    Argument("--nproc", "local ranks", kind="count", default=1, metavar="N", group="Method"),
    Argument(
        "--tp",
        "tensor parallel size of --engine megatron",
        kind="count",
        default=1,
        metavar="N",
        group="Method",
    ),
    Argument(
        "--gc-rank",
        "rank of the low-rank factors of GC:powersgd and GC:acpsgd",
        kind="count",
        default=4,
        metavar="N",
        group="Method",
    ),
    Argument(
        "--gc-density",
        "share of the gradient that GC:topk sends",
        kind="number",
        default=0.01,
        metavar="SHARE",
        group="Method",
    ),
    Argument(
        "--batch-size",
        "sequences of a rank in a step",
        kind="count",
        default=1,
        metavar="N",
        group="Model and data",
    ),
    Argument(
        "--seq-len",
        "tokens of a sequence",
        kind="count",
        default=350,
        metavar="N",
        group="Model and data",
    ),
    Argument(
        "--fixed-batch",
        "train every step on the same batch, so that the loss must fall",
        kind="flag",
        group="Model and data",
    ),
    Argument(
        "--learning-rate",
        "learning rate of AdamW",
        kind="number",
        default=1e-4,
        metavar="RATE",
        group="Model and data",
    ),
    Argument(
        "--preset",
        "settings of the paper: sequence length 350, 30 warm-up and 100 measured steps, 3 repeats, "
        "10 profiled steps",
        kind="choice",
        choices=("paper",),
        group="Steps",
    ),
    Argument(
        "--warmup",
        "steps that are not counted",
        kind="count",
        default="5; 1 on a CPU",
        metavar="N",
        group="Steps",
    ),
    Argument(
        "--steps",
        "measured steps, without profiler and ranges",
        kind="count",
        default="20; 3 on a CPU",
        metavar="N",
        group="Steps",
    ),
    Argument(
        "--repeats",
        "how often the measured steps are repeated",
        kind="count",
        default="3; 2 on a CPU",
        metavar="N",
        group="Steps",
    ),
    Argument(
        "--profile-steps",
        "profiled steps, after the measured ones",
        kind="count",
        default="3; 2 on a CPU",
        metavar="N",
        group="Steps",
    ),
    Argument("--with-stack", "record Python stacks in the trace", kind="flag", group="Profiler"),
    Argument("--profile-memory", "record the allocator's events", kind="flag", group="Profiler"),
    Argument("--no-shapes", "record no shapes of arguments", kind="flag", group="Profiler"),
    Argument(
        "--memory-limit",
        "memory that a rank may use, as 16GB; what needs more is recorded as out of memory",
        metavar="SIZE",
        group="Limits",
    ),
)
