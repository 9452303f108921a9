"""An argument of a command line, as data: what it is called, takes and means.

The options of click are made of them (`options`), and so are the command lines of a sweep's cells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tracekit.errors import UsageError

Kind = Literal["text", "count", "number", "flag", "choice", "path"]

STAGES = ("pretrain", "finetune", "serve")

_BYTES_PER_UNIT = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One option of the command line.

    Attributes:
        name: as typed, `--batch-size`.
        meaning: the help text, one phrase.
        kind: `count` is an integer of 0 or more, `number` a finite number, `flag` takes no value.
        choices: the values that a `choice` takes.
        default: shown in the help; what is used when the option is not given.
        metavar: the name of the value in the help; `N` of a count.
        stages: the stages that take it; another stage that is given it is a `UsageError`.
        group: the heading under which the help lists it.
    """

    name: str
    meaning: str
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    default: str | int | float | None = None
    metavar: str | None = None
    stages: tuple[str, ...] = ("pretrain", "finetune")
    group: str = "Run"

    @property
    def key(self) -> str:
        """The argument's name in Python: `batch_size`."""
        return self.name.removeprefix("--").replace("-", "_")


def settle(values: Mapping[str, object], arguments: Iterable[Argument]) -> dict[str, Any]:
    """Check the values that were given against the arguments of their stage.

    Of `values`, None and False mean that an option was not given. Returns what was, in the types of
    the arguments, and always `stage`.

    Raises:
        UsageError: a name is unknown, a value has the wrong form, or the stage does not take it.
    """
    known = {argument.key: argument for argument in arguments}
    given = {
        key: value for key, value in values.items() if value is not None and value is not False
    }
    for key in given:
        if key not in known:
            raise UsageError(f"there is no argument {key!r}")
    settled: dict[str, Any] = {key: converted(known[key], value) for key, value in given.items()}
    stage = settled.setdefault("stage", "pretrain")
    for key in settled:
        if stage not in known[key].stages:
            takers = " and ".join(known[key].stages)
            raise UsageError(f"{known[key].name} is for --stage {takers}, not for {stage}")
    return settled


def converted(argument: Argument, value: object) -> Any:
    """Return a value in the type of its argument."""
    if argument.kind == "flag":
        return bool(value)
    if argument.kind == "choice":
        if value in argument.choices:
            return value
        options = ", ".join(argument.choices)
        raise UsageError(f"{argument.name} is {value!r}, not one of {options}")
    if argument.kind == "path":
        return Path(str(value)).expanduser()
    if argument.kind == "text":
        return str(value)
    try:
        number = int(str(value)) if argument.kind == "count" else float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (argument.kind == "count" and number < 0):
        form = "an integer of 0 or more" if argument.kind == "count" else "a number"
        raise UsageError(f"{argument.name} is {value!r}, which is not {form}")
    return number


def parse_bytes(text: str, name: str) -> int:
    """Return a size such as `2GB`, `512MiB` or `1000000` in bytes (GB = 1e9)."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    factor = _BYTES_PER_UNIT.get(match[2].upper()) if match else None
    if match is None or factor is None:
        raise UsageError(f"{name} is {text!r}, which is no size", hint="for example 2GB or 512MiB")
    return int(float(match[1]) * factor)
