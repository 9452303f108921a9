"""Click options of the collectors' commands, with help groups and stages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tracekit.errors import UsageError
from tracekit.units import parse_bytes, parse_duration

TRAINING = ("pretrain", "finetune")
STAGES = (*TRAINING, "serve")
PROGRAM = "program"
"""Pseudo-stage of options that apply to the user's own program."""


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """Parameter type that parses values with a function; a `ValueError` contains the message."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _integer(least: int) -> click.ParamType[Any]:
    def read(text: str) -> int:
        if not text.isdecimal() or len(text) > 18 or int(text) < least:
            raise ValueError(f"{text!r} is not an integer of at least {least}")
        return int(text)

    return Parsed("N", read)


def number(most: float = math.inf) -> click.ParamType[Any]:
    def read(text: str) -> float:
        number = float(text)
        if not 0 < number <= most or math.isinf(number):
            bound = "" if math.isinf(most) else f" and up to {most:g}"
            raise ValueError(f"{text!r} is not a number above 0{bound}")
        return number

    return Parsed("NUMBER", read)


COUNT, POSITIVE = _integer(0), _integer(1)
PATH = Parsed("PATH", lambda text: Path(text).expanduser())
SIZE, DURATION = Parsed("SIZE", parse_bytes), Parsed("TIME", parse_duration)


class Option(click.Option):
    """An option of a collector; if omitted, its value is None, or False for a flag.

    Only the given `stages` accept the option. The help lists it, with its `default`, under the
    heading `group`.
    """

    def __init__(
        self,
        name: str,
        meaning: str,
        type: click.ParamType[Any] | None = None,  # noqa: A002 - click's name
        *,
        default: object = None,
        metavar: str | None = None,
        stages: tuple[str, ...] = TRAINING,
        group: str = "Run",
        is_flag: bool = False,
    ) -> None:
        shown = "" if default is None else f"  [default: {default}]"
        super().__init__(
            [name],
            type=None if is_flag else type or click.STRING,
            help=f"{meaning[:1].upper()}{meaning[1:]}.{shown}",
            # For a choice, click shows the accepted values.
            metavar=metavar or (type.name if isinstance(type, Parsed) else None),
            is_flag=is_flag or None,  # with False, click would allow the option without a value
        )
        self.key = str(self.name)
        self.stages = stages
        self.group = group
        self._made_of = {
            "name": name,
            "meaning": meaning,
            "type": type,
            "default": default,
            "metavar": metavar,
            "stages": stages,
            "group": group,
            "is_flag": is_flag,
        }

    def but(self, **changes: Any) -> Option:
        return Option(**{**self._made_of, **changes})


class GroupedCommand(click.Command):
    """A command with options in groups; words after `--` are the user's program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["command"] = [*ctx.command_path.split(), *args]
        ctx.meta["program"] = []
        if "--" in args:
            at = args.index("--")
            ctx.meta["program"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = getattr(parameter, "group", "Options")
                groups.setdefault(group, []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


def given(values: Mapping[str, Any], options: Iterable[Option]) -> dict[str, Any]:
    """Return the values of the options that were passed, converted to their types."""
    known = {option.key: option for option in options}
    result = {}
    for key, value in values.items():
        if key not in known:
            raise UsageError(f"unknown option {key!r}")
        if value is not None and value is not False:
            try:
                result[key] = known[key].type.convert(value, known[key], None)
            except click.BadParameter as error:
                raise UsageError(error.format_message()) from None
    return result


def parsed(options: Iterable[Option], words: Sequence[str]) -> dict[str, Any]:
    """Parse the words of a command line; return the values of all options, None if omitted."""
    command = click.Command("", params=[*options], add_help_option=False)
    return command.make_context("", list(words)).params


def profiler_options(values: Mapping[str, Any]) -> dict[str, bool]:
    options = {
        name: bool(values.get(name)) for name in ("with_stack", "with_flops", "profile_memory")
    }
    return {"record_shapes": not values.get("no_shapes"), **options}


def range_options(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "has_backward_ranges": bool(values.get("backward_ranges")),
        "has_nvtx": bool(values.get("nvtx")),
        "has_light_steps": not values.get("no_light_steps"),
    }
