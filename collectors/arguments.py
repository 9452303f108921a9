"""The arguments of `tracekit collect`: those of every stage, and those of each kind.

A kind of stage has its own in `<room>/arguments.py`. Arguments of the same name are one option with
the stages of both.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from .command.argument import STAGES, Argument
from .serving.arguments import ARGUMENTS as OF_SERVING
from .training.arguments import ARGUMENTS as OF_TRAINING

_of_all = partial(Argument, stages=STAGES)
_of_data = partial(_of_all, group="Model and data")

SHARED: tuple[Argument, ...] = (
    _of_all("--stage", "what to run", "choice", choices=STAGES, default="pretrain"),
    _of_all(
        "--out",
        "the run folder to write; it appears only when it is whole",
        "path",
        default="runs/<stage>-<model>-<opt>-<time>",
        metavar="DIR",
    ),
    _of_all("--force", "replace the run folder if it exists", "flag"),
    _of_data(
        "--model",
        "model: tiny, llama2-7b, llama2-13b, llama2-70b, a CONFIG.json or a model's FOLDER; "
        "random weights, nothing is downloaded",
        default="tiny; llama2-7b with a GPU",
        metavar="MODEL",
    ),
    _of_data("--layers", "cut the model down to its first N layers", "count"),
    _of_data(
        "--precision",
        "type of the weights and of the arithmetic",
        "choice",
        choices=("bf16", "fp16", "fp32"),
        default="bf16",
    ),
    _of_data("--seed", "seed of weights and data", "count", default=0),
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
