"""The arguments of a sweep: those of collecting a training run, some of them as lists."""

from __future__ import annotations

import dataclasses

from ..arguments import all_arguments
from ..command.argument import Argument

STAGES = ("pretrain", "finetune")
MAX = "max"
LISTS = ("model", "opt", "engine", "nproc", "batch_size")
"""The arguments that take a list, separated by commas; the last changes fastest."""

MAX_BATCH_SIZE = Argument(
    "--max-batch-size",
    "the largest batch that max tries; without a GPU max needs it or --memory-limit",
    kind="count",
    default=1024,
    metavar="N",
    group="Model and data",
)
_OWN_BY_KEY = {
    "model": "models, separated by commas: tiny, llama2-7b, llama2-13b, llama2-70b, a CONFIG.json "
    "or a model's FOLDER",
    "opt": 'methods as in collect, separated by commas: "Naive,Z2,R+Z3"',
    "engine": "engines, separated by commas: deepspeed, ddp, fsdp2, megatron",
    "nproc": "numbers of local ranks, separated by commas",
    "batch_size": "sequences of a rank in a step, separated by commas; max finds the largest that "
    "fits",
    "out": "the folder that takes a run folder for each cell; finished cells in it are skipped",
    "force": "run finished cells again",
}


def sweep_arguments() -> tuple[Argument, ...]:
    """Return the arguments of a sweep: those of collecting a training run, five of them lists."""
    own = []
    for argument in all_arguments():
        if not set(STAGES) & set(argument.stages):
            continue
        if argument.key in LISTS:
            argument = dataclasses.replace(argument, kind="text", choices=(), metavar="LIST")
        if argument.key == "stage":
            argument = dataclasses.replace(argument, choices=STAGES)
        if argument.key == "out":
            argument = dataclasses.replace(argument, default=None, metavar="RUNS")
        meaning = _OWN_BY_KEY.get(argument.key, argument.meaning)
        own.append(dataclasses.replace(argument, meaning=meaning))
    return (*own, MAX_BATCH_SIZE)
