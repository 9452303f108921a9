"""The arguments of `--stage pretrain` and `--stage finetune`."""

from __future__ import annotations

from functools import partial

from ..command.argument import Argument

_of_method = partial(Argument, group="Method")
_of_data = partial(Argument, group="Model and data")
_of_steps = partial(Argument, group="Steps")
_of_profiler = partial(Argument, group="Profiler")
_of_program = partial(Argument, group="A program of your own")

ARGUMENTS: tuple[Argument, ...] = (
    _of_method(
        "--opt",
        "methods joined by +: Naive, Z1, Z2, Z3, O, R, F, Q, L, QL, LFA, PT, GC:powersgd, "
        "GC:acpsgd, GC:topk, GC:signsgd",
        default="Naive",
        metavar="OPT",
    ),
    _of_method(
        "--engine",
        "framework: deepspeed, ddp, fsdp2 or megatron",
        default="deepspeed with Z or O, else ddp",
        metavar="ENGINE",
    ),
    _of_method("--nproc", "local ranks", "count", default=1),
    _of_method("--tp", "tensor parallel size of --engine megatron", "count", default=1),
    _of_method(
        "--gc-rank", "rank of the low-rank factors of GC:powersgd and GC:acpsgd", "count", default=4
    ),
    _of_method(
        "--gc-density",
        "share of the gradient that GC:topk sends",
        "number",
        default=0.01,
        metavar="SHARE",
    ),
    _of_data("--batch-size", "sequences of a rank in a step", "count", default=1),
    _of_data("--seq-len", "tokens of a sequence", "count", default=350),
    _of_data(
        "--fixed-batch", "train every step on the same batch, so that the loss must fall", "flag"
    ),
    _of_data("--learning-rate", "learning rate of AdamW", "number", default=1e-4, metavar="RATE"),
    _of_steps(
        "--preset",
        "settings of the paper: sequence length 350, 30 warm-up and 100 measured steps, 3 repeats, "
        "10 profiled steps",
        "choice",
        choices=("paper",),
    ),
    _of_steps("--warmup", "steps that are not counted", "count", default="5; 1 on a CPU"),
    _of_steps(
        "--steps", "measured steps, without profiler and ranges", "count", default="20; 3 on a CPU"
    ),
    _of_steps(
        "--repeats", "how often the measured steps are repeated", "count", default="3; 2 on a CPU"
    ),
    _of_steps(
        "--profile-steps",
        "profiled steps, after the measured ones",
        "count",
        default="3; 2 on a CPU",
    ),
    _of_profiler("--with-stack", "record Python stacks in the trace", "flag"),
    _of_profiler("--with-flops", "let the profiler count floating-point operations itself", "flag"),
    _of_profiler("--profile-memory", "record the allocator's events", "flag"),
    _of_profiler("--no-shapes", "record no shapes of arguments", "flag"),
    Argument(
        "--memory-limit",
        "memory that a rank may use, as 16GB; what needs more is recorded as out of memory",
        metavar="SIZE",
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
        "count",
        default=1,
        metavar="K",
    ),
    _of_program("--every", "PROGRAM: steps from one window to the next", "count"),
    _of_program(
        "--on-demand",
        "PROGRAM: profile another window when this file is made or touched; a number in it is how "
        "many steps",
        "path",
        metavar="FILE",
    ),
    _of_program(
        "--on-signal",
        "PROGRAM: profile another window when tracekit gets this signal, which the program then "
        "does not",
        "choice",
        choices=("USR1", "USR2"),
    ),
)
