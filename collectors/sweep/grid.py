"""Cells of a sweep: all combinations of the listed arguments, with their folder names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from tracekit import manifest
from tracekit.errors import TracekitError, UsageError

from ..command_line import POSITIVE, TRAINING, Option, parsed
from ..machine.hardware import accelerator_count
from ..model.models import display_name
from ..options import OPTIONS as OF_COLLECT
from ..options import validated
from ..training import opt as opt_module
from ..training.spec import TrainingSpec, make_spec

MAX = "max"
LISTS = ("model", "opt", "engine", "nproc", "batch_size")
"""Options that accept comma-separated lists; the last option varies fastest."""

MAX_BATCH_SIZE = 1024
_CHANGES: dict[str, dict[str, Any]] = {
    "stage": {"type": click.Choice(TRAINING)},
    "model": {
        "meaning": (
            "models, separated by commas: tiny, llama2-7b, llama2-13b, llama2-70b, a "
            "CONFIG.json, or a model FOLDER"
        )
    },
    "opt": {"meaning": 'optimizations as in collect, separated by commas: "Naive,Z2,R+Z3"'},
    "engine": {"meaning": "engines, separated by commas: deepspeed, ddp, fsdp2, megatron"},
    "nproc": {"meaning": "numbers of local ranks, separated by commas"},
    "batch_size": {
        "meaning": (
            "sequences per rank and step, separated by commas; max finds the largest that fits"
        )
    },
    "out": {
        "meaning": "folder for the run folders of all combinations; finished ones are skipped",
        "default": None,
        "metavar": "RUNS",
    },
    "force": {"meaning": "rerun finished combinations"},
}

OPTIONS: tuple[Option, ...] = (
    *(
        option.but(
            **({"type": None, "metavar": "LIST"} if option.key in LISTS else {}),
            **_CHANGES.get(option.key, {}),
        )
        for option in OF_COLLECT
        if set(TRAINING) & set(option.stages)
    ),
    Option(
        "--max-batch-size",
        "upper bound of --batch-size max; without a GPU, max needs this or --memory-limit",
        POSITIVE,
        default=MAX_BATCH_SIZE,
        group="Model and data",
    ),
)
"""Options of a sweep: the options of a training run, five of which accept lists."""


class Cell(Struct, frozen=True):
    """One run of the grid. If `is_max`, the sweep searches for the largest batch size."""

    name: str
    values: dict[str, Any]
    spec: TrainingSpec
    is_max: bool

    def arguments(self, out: Path, **changes: Any) -> list[str]:
        values = {**self.values, **changes, "out": out}
        arguments = []
        for option in OF_COLLECT:
            value = values.get(option.key)
            if value is None or value is False:
                continue
            arguments.append(option.opts[0])
            if not option.is_flag:
                arguments.append(str(value))
        return arguments


def make_grid(values: Mapping[str, object]) -> list[Cell]:
    shared = {key: value for key, value in values.items() if key not in (*LISTS, "out", "force")}
    limit = shared.pop("max_batch_size", None)
    lists = {key: _items(key, values[key]) for key in LISTS if values.get(key) not in (None, False)}
    cells = [
        _cell({**shared, **dict(zip(lists, items, strict=True))}, limit)
        for items in itertools.product(*lists.values())
    ]
    seen: dict[str, Cell] = {}
    for cell in cells:
        if cell.name in seen:
            raise UsageError(
                f"two cells of the sweep would have the name {cell.name}",
                hint="a value is listed twice, or two models have the same name",
            )
        seen[cell.name] = cell
    return cells


def difference(cell: Cell, run: manifest.Manifest) -> str | None:
    words = list(run.command)
    options = next((index for index, word in enumerate(words) if word.startswith("--")), len(words))
    try:
        spec = make_spec(validated(parsed(OF_COLLECT, words[options:])), [])
    except (TracekitError, click.UsageError):
        return f"its command is {' '.join(words)!r}"
    ignored = {"command", "batch_size"} if cell.is_max else {"command"}
    for name in TrainingSpec.__struct_fields__:
        theirs, ours = getattr(spec, name), getattr(cell.spec, name)
        if name not in ignored and theirs != ours:
            return f"its {name} is {theirs}, not {ours}"
    return None


def _items(key: str, value: object) -> list[str]:
    items = [item.strip() for item in str(value).split(",")]
    name = "--" + key.replace("_", "-")
    if not all(items):
        raise UsageError(f"{name} {value!r}: the list has an empty item")
    return items


def _cell(values: dict[str, object], limit: object) -> Cell:
    is_max = values.get("batch_size") == MAX
    if is_max:
        del values["batch_size"]
    options = validated(values)
    is_bounded = limit is not None or options.get("memory_limit") is not None
    if is_max and not is_bounded and not accelerator_count():
        raise UsageError(
            "--batch-size max needs a limit on a machine without a GPU",
            hint="pass --memory-limit, for example 8GB, or --max-batch-size",
        )
    spec = make_spec(options, [])
    return Cell(_name(spec, is_max), options, spec, is_max)


def _name(spec: TrainingSpec, is_max: bool) -> str:
    parts = [spec.stage, display_name(spec.model, spec.layer_count), spec.opt_text]
    if spec.engine != opt_module.default_engine(spec.opt):
        parts.append(spec.engine)
    parts += [f"bs{MAX if is_max else spec.batch_size}", f"n{spec.rank_count}"]
    return "_".join(re.sub(r"[^\w.+-]+", "-", part) for part in parts)
