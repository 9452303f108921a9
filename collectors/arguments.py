"""The arguments of `tracekit collect`: those of every stage, and those of each kind.

A kind of stage has its own in `<room>/arguments.py`. Arguments of the same name are one option with
the stages of both.
"""

from __future__ import annotations

import dataclasses

from .command.argument import STAGES, Argument
from .serving.arguments import ARGUMENTS as OF_SERVING
from .training.arguments import ARGUMENTS as OF_TRAINING

SHARED: tuple[Argument, ...] = (
    Argument(
        "--stage", "what to run", kind="choice", choices=STAGES, default="pretrain", stages=STAGES
    ),
    Argument(
        "--out",
        "the run folder to write; it appears only when it is whole",
        kind="path",
        default="runs/<stage>-<model>-<opt>-<time>",
        metavar="DIR",
        stages=STAGES,
    ),
    Argument("--force", "replace the run folder if it exists", kind="flag", stages=STAGES),
    Argument(
        "--model",
        "model: tiny, llama2-7b, llama2-13b, llama2-70b, a CONFIG.json or a model's FOLDER; "
        "random weights, nothing is downloaded",
        default="tiny; llama2-7b with a GPU",
        metavar="MODEL",
        stages=STAGES,
        group="Model and data",
    ),
    Argument(
        "--layers",
        "cut the model down to its first N layers",
        kind="count",
        metavar="N",
        stages=STAGES,
        group="Model and data",
    ),
    Argument(
        "--precision",
        "type of the weights and of the arithmetic",
        kind="choice",
        choices=("bf16", "fp16", "fp32"),
        default="bf16",
        stages=STAGES,
        group="Model and data",
    ),
    Argument(
        "--seed",
        "seed of weights and data",
        kind="count",
        default=0,
        metavar="N",
        stages=STAGES,
        group="Model and data",
    ),
)
"""Arguments that mean the same in every stage."""


def all_arguments() -> tuple[Argument, ...]:
    """Return the arguments of every stage; those of one name are merged."""
    merged = {argument.name: argument for argument in SHARED}
    for argument in (*OF_TRAINING, *OF_SERVING):
        known = merged.get(argument.name)
        merged[argument.name] = argument if known is None else _merge(known, argument)
    return tuple(merged.values())


def _merge(first: Argument, second: Argument) -> Argument:
    """Return one option that two kinds of stages take."""
    if first.kind != second.kind:
        raise ValueError(f"{first.name} is {first.kind} in one place and {second.kind} in another")
    meaning = first.meaning
    if second.meaning != meaning:
        meaning = f"{meaning}; {'/'.join(second.stages)}: {second.meaning}"
    return dataclasses.replace(
        first,
        meaning=meaning,
        choices=tuple(dict.fromkeys((*first.choices, *second.choices))),
        stages=tuple(stage for stage in STAGES if stage in (*first.stages, *second.stages)),
    )
