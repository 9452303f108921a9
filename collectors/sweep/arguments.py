"""The arguments of a sweep: those of collecting a training run, some of them as lists."""

from __future__ import annotations

import dataclasses
from typing import Any

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
_MEANINGS = {
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
_CHANGES: dict[str, dict[str, Any]] = {
    **{key: {"kind": "text", "choices": (), "metavar": "LIST"} for key in LISTS},
    "stage": {"choices": STAGES},
    "out": {"default": None, "metavar": "RUNS"},
}


def sweep_arguments() -> tuple[Argument, ...]:
    """Return the arguments of a sweep: those of collecting a training run, five of them lists."""
    own = [
        dataclasses.replace(
            argument,
            meaning=_MEANINGS.get(argument.key, argument.meaning),
            **_CHANGES.get(argument.key, {}),
        )
        for argument in all_arguments()
        if set(STAGES) & set(argument.stages)
    ]
    return (*own, MAX_BATCH_SIZE)
