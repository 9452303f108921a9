"""The options of click that arguments make, and commands that have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from .argument import Argument


class GroupedCommand(click.Command):
    """A command whose help lists the collectors' options under the headings of their groups.

    What follows `--` is no option of the command's, but a program with arguments of its own.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the program aside, as `ctx.meta["program"]`."""
        ctx.meta["program"] = []
        if "--" in args:
            at = args.index("--")
            ctx.meta["program"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, group by group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = getattr(parameter, "group", "Options")
                groups.setdefault(group, []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


class _GroupedOption(click.Option):
    """An option that knows the heading of its help."""

    def __init__(self, *names: Any, group: str, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.group = group


def argument_options(arguments: Iterable[Argument]) -> Callable[[Any], Any]:
    """Return a decorator that gives a command the options of some arguments.

    Values stay text, so that the collectors check and convert them for every command line alike.
    """
    options = [_option(argument) for argument in arguments]

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def parsed(arguments: Iterable[Argument], words: Sequence[str]) -> dict[str, object]:
    """Return the values that the words of a command line give to arguments.

    Returns them as typed, by `Argument.key`; None or False where one was not given.
    """
    command = argument_options(arguments)(lambda: None)
    bare: click.Command = click.command(name="", add_help_option=False)(command)
    return bare.make_context("", list(words)).params


def _option(argument: Argument) -> Callable[[Any], Any]:
    meaning = f"{argument.meaning[:1].upper()}{argument.meaning[1:]}."
    if argument.default is not None:
        meaning += f"  [default: {argument.default}]"
    named: dict[str, Any] = {"cls": _GroupedOption, "group": argument.group, "help": meaning}
    if argument.kind == "flag":
        return click.option(argument.name, argument.key, is_flag=True, **named)
    choices = "[" + "|".join(argument.choices) + "]" if argument.choices else None
    metavar = argument.metavar or choices or ("N" if argument.kind == "count" else None)
    return click.option(argument.name, argument.key, metavar=metavar, **named)
