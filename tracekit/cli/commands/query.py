"""`tracekit query NAME TRACE`: run an analysis. Its options are in the header of its SQL file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from tracekit.cli._emit import emit
from tracekit.cli._options import (
    Reading,
    format_option,
    queries_option,
    reading_options,
    trace_argument,
    wide_option,
)
from tracekit.errors import QueryError, UsageError
from tracekit.render._text import printable
from tracekit.units import unit_of

if TYPE_CHECKING:
    from tracekit.analysis.catalog import Specs
    from tracekit.analysis.query_folders import Library, OwnFile
    from tracekit.analysis.result import Result
    from tracekit.analysis.spec import Param, Spec
    from tracekit.trace import Trace

DEVICE_PEAK = "device_peak"
"""Relation that an analysis reads if it uses peak rates of devices."""

ADVICE = "advice"
"""Subject of the analyses that `tracekit advise` runs together."""

QUESTIONS = (
    ("How long is a step?", "query steps --per total TRACE"),
    ("How long is a step without the profiler?", "query unprofiled TRACE"),
    ("How long are forward, backward, and optimizer?", "query phases --per step TRACE"),
    ("Why is the GPU idle?", "query idle_causes --per total TRACE"),
    ("Is the data loader the bottleneck?", "query idle_causes TRACE"),
    ("Which layers and modules take the most time?", "pivot TRACE --rows module"),
    ("Which kernels take the most time?", "query kernel_classes --per total TRACE"),
    ("How efficient are the GEMMs?", "query gemms --per total TRACE"),
    ("What is the MFU?", "query mfu TRACE"),
    ("What uses the GPU memory at its peak?", "query memory TRACE"),
    ("Is communication hidden behind compute?", "query communication --per total TRACE"),
    ("Which rank is late, and why?", "query waits TRACE"),
    ("What changed between two runs?", "compare BASE NEW"),
    ("What should I change first?", "advise TRACE"),
    ("What would a CUDA graph gain?", "predict TRACE --change 'graph on'"),
    ("Why is this decode step slow?", "query serving_steps TRACE"),
    ("How does batch size affect decode latency?", "query serving_steps TRACE"),
    ("Can I trust this trace?", "query health TRACE"),
)
"""The questions on the manual's page, each with its command."""

_OWN = "tracekit.own_file"
"""Key in the metadata of a click context for the user's SQL file."""

_UNITS = {
    "VARCHAR": "text",
    "BIGINT": "int",
    "INTEGER": "int",
    "DOUBLE": "float",
    "BOOLEAN": "bool",
    "count": "int",
    "pct": "%",
    "per_s": "1/s",
    "flop_per_s": "FLOP/s",
    "bytes_per_s": "bytes/s",
}
"""Units and types of columns in the help of an analysis."""

_CLICK_TYPES: dict[str, click.ParamType[Any]] = {
    "BIGINT": click.INT,
    "INTEGER": click.INT,
    "DOUBLE": click.FLOAT,
    "VARCHAR": click.STRING,
    "BOOLEAN": click.BOOL,
}


class _Analyses(click.Group):
    """Command group: the built-in analyses and the user's analyses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_catalogued())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        spec = _catalogued().get(cmd_name)
        if spec is not None:
            return _analysis_command(spec)
        own = ctx.meta.get(_OWN)
        return None if own is None else _analysis_command(own.spec, own)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the common options, but no analyses, which --list shows."""
        shared = _params_of(_shared_options(lambda: None))
        records = [record for one in shared[1:] if (record := one.get_help_record(ctx))]
        with formatter.section("Options of every analysis"):
            formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # --list accepts options in any order and ignores a trace.
        ctx.allow_interspersed_args = "--list" in args
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ctx.params.get("list_them"):
            return "", click.Command("", callback=lambda: _list(ctx.params)), []
        name, *rest = args
        analyses = _catalogued()
        if ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if name not in analyses:
            from tracekit.analysis.catalog import renamed

            library = _library_of(ctx.params.get("queries", ()), rest)
            today = renamed(name)
            if today != name and name not in library.analyses:
                _print_new_name(name, today)
                return super().resolve_command(ctx, [today, *rest])
            if name not in library.analyses and Path(name).exists():
                raise UsageError(
                    f"{name} is not an analysis", hint="pass the name first: query NAME TRACE"
                )
            ctx.meta[_OWN] = library.analysis(name)
            return super().resolve_command(ctx, args)
        head, per = analyses.spelling(name)
        if per is not None:
            _print_new_name(name, f"{head} --per {per}")
        elif name in analyses.families() and (given := _per_of(rest)):
            per, rest = given
            name = analyses.member(name, per)
        shown = f"{head} --per {per}" if per else name
        return shown, self.get_command(ctx, name), rest


def _per_of(args: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the value of --per and the other arguments, or None without --per."""
    for at, arg in enumerate(args):
        if arg == "--per" and at + 1 < len(args):
            return args[at + 1], [*args[:at], *args[at + 2 :]]
        if arg.startswith("--per="):
            return arg.removeprefix("--per="), [*args[:at], *args[at + 1 :]]
    return None


def _print_new_name(name: str, today: str) -> None:
    click.echo(f"note: `tracekit query {name}` is now `tracekit query {today}`", err=True)


def _catalogued() -> Specs:
    """Return the built-in analyses. `tracekit --help` must not import them."""
    from tracekit.analysis.catalog import load_catalog

    return load_catalog().analyses


def _library_of(queries: Sequence[Path], args: Sequence[str]) -> Library:
    """Return the user's SQL files, before click parses `args`, because they define options."""
    from tracekit.analysis.query_folders import given_folders, load_library

    named: list[str | Path] = [*queries]
    for before, arg in pairwise(["", *args]):
        if arg.startswith("--queries="):
            named.append(arg.removeprefix("--queries="))
        elif before == "--queries":
            named.append(arg)
    return load_library(given_folders(named))


class _AnalysisCommand(click.Command):
    """A command whose help fits on a screen: columns, parameters, and an example."""

    def __init__(
        self,
        spec: Spec,
        own: OwnFile | None,
        options: Sequence[click.Parameter],
        **settings: Any,
    ) -> None:
        super().__init__(spec.name, short_help=spec.question, **settings)
        self._spec = spec
        self._own = own
        self._options = options

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help. --explain prints the rest of the header."""
        from tracekit.render._text import truncate

        spec = self._spec
        self.format_usage(ctx, formatter)
        formatter.write(f"\n{click.wrap_text(spec.question, formatter.width)}\n\n")
        lines = ["Columns"]
        names = max(map(len, spec.column_names))
        units = {
            column.name: _UNITS.get(unit := unit_of(column.name) or column.type, unit)
            for column in spec.columns
        }
        width = max(map(len, units.values()))
        for column in spec.columns:
            unit = units[column.name]
            meaning = column.meaning.removesuffix(f", {unit}")
            lines.append(f"  {column.name:<{names}}  {unit:<{width}}  {meaning}")
        records = [record for one in self._options if (record := one.get_help_record(ctx))]
        if records:
            width = max(len(flags) for flags, _ in records)
            lines += ["Parameters", *(f"  {flags:<{width}}  {text}" for flags, text in records)]
        needed = [one for one in spec.params if one.is_required or one.name in spec.needs[:1]]
        arguments = "".join(f" --{one.name.replace('_', '-')} {one.name.upper()}" for one in needed)
        lines.append(f"Example: {ctx.command_path} TRACE{arguments} --format csv")
        lines.append("--explain prints the definition; other options: tracekit query --help")
        for line in lines:
            formatter.write(f"{truncate(line, formatter.width)}\n")
        if self._own is not None:
            formatter.write(f"File: {printable(spec.path)} ({self._own.origin})\n")


@click.group(
    name="query",
    cls=_Analyses,
    invoke_without_command=True,
    subcommand_metavar="NAME TRACE... [OPTIONS]",
)
@click.option(
    "--list",
    "list_them",
    is_flag=True,
    help="List common questions, then all analyses by subject.",
)
@click.option(
    "--all", "is_all", is_flag=True, help="With --list: include the rules of `tracekit advise`."
)
@queries_option
@format_option
@click.pass_context
def command(
    ctx: click.Context,
    list_them: bool,
    is_all: bool,
    queries: tuple[Path, ...],
    format_name: str,
) -> None:
    """Run a built-in analysis.

    `--list` lists all analyses, and `NAME --help` shows the columns and parameters of one. Your own
    analyses are SQL files in a folder that --queries names, or in tracekit/queries of your
    configuration folder.
    """
    del queries, format_name, is_all
    if ctx.invoked_subcommand is not None:
        return
    if list_them:
        _list(ctx.params)
    else:
        raise UsageError("which analysis?", hint="list them with tracekit query --list")


def _list(given: Mapping[str, Any]) -> None:
    format_name, library = given["format_name"], _library_of(given["queries"], ())
    from tracekit.analysis.result import Column, Result

    if format_name == "brief":
        # With descriptions, the list would be too wide.
        emit(_catalogued().by_subject(), format_name)
        return
    rows = [
        (*title[:4], "|".join(title.per), "tracekit")
        for title in _catalogued().listed()
        if given["is_all"] or title.subject != ADVICE
    ]
    for name, own in library.analyses.items():
        spec = own.spec
        rows.append((name, spec.subject, spec.scope, spec.question, "", spec.path))
    names = ("name", "subject", "scope", "description", "per", "file")
    result = Result("analyses", tuple(Column(name, "VARCHAR") for name in names), rows)
    if format_name == "table":
        _show_list(result)
    else:
        emit(result, format_name)
    for refused in library.refused:
        click.echo(f"note: not used: {printable(refused.reason)}", err=True)


def _show_list(result: Result) -> None:
    """Print common questions with their commands, then the analyses by subject, one per line."""
    from tracekit.render._text import truncate
    from tracekit.render.table import width_of

    width = max(len(question) for question, _ in QUESTIONS)
    for question, way in QUESTIONS:
        click.echo(f"{question:<{width}}  {way}")
    names = max(map(len, result.column("name")))
    subject = ""
    for row in result.to_dicts():
        if row["subject"] != subject:
            subject = row["subject"]
            click.echo(f"\n{subject.capitalize()}")
        own = "" if row["file"] == "tracekit" else f"  ({printable(row['file'])})"
        per = f"  --per {row['per']}" if row["per"] else own
        room = width_of(sys.stdout) - names - 4 - len(per)
        text = truncate(printable(row["description"]), max(room, 20))
        click.echo(f"  {row['name']:<{names}}  {text}{per}")


def _analysis_command(spec: Spec, own: OwnFile | None = None) -> click.Command:
    def run(
        traces: tuple[str, ...],
        format_name: str,
        wide: bool,
        reading: Reading,
        device: str | None = None,
        peak: tuple[str, ...] = (),
        **params: object,
    ) -> None:
        from tracekit.cli._open import open_traces

        values = {name: value for name, value in params.items() if value is not None}
        reads_traces = spec.scope != "runs"
        parent = click.get_current_context().parent
        before = () if parent is None else parent.params["queries"]
        folders = (*before, *reading.queries)
        with open_traces(
            traces, replace(reading, queries=folders), reads_traces=reads_traces
        ) as trace:
            if device or peak:
                trace.assume_peaks(device, **dict(map(_peak, peak)))
            result = trace.query(spec.name, **values)
            emit(result, format_name, wide=wide)
            if not result.rows:
                print_empty_reasons(trace, spec.name)

    from tracekit.analysis.library import reads_of

    options: list[click.Parameter] = [*map(_option, spec.params)]
    if DEVICE_PEAK in reads_of(spec):
        options += _params_of(_device_option(_peak_option(lambda: None)))
    if per := _catalogued().families().get(spec.name):
        meaning = "Change the rows and columns; add --help to show them."
        choice = click.Choice(tuple(per))
        options.append(click.Option(["--per"], type=choice, help=meaning, expose_value=False))
    run = _shared_options(run)
    shared = _params_of(run)
    used_names = {param.name for param in shared}
    used_names |= {flag.strip("-").replace("-", "_") for param in shared for flag in param.opts}
    for param in spec.params:
        if param.name in used_names:
            raise QueryError(f"{spec.path}: the parameter {param.name} conflicts with an option")
    return _AnalysisCommand(
        spec, own, options, callback=run, params=[*options, *shared, _explain_option(spec)]
    )


def _shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options that all analyses share to a command."""
    of_reading = reading_options(
        "queries", "rules", "capture", "peak_rates", "unprofiled_step", "step", "no_cache", "engine"
    )
    for decorate in (of_reading, wide_option, format_option, trace_argument):
        command = decorate(command)
    return command


def _params_of(command: Callable[..., Any]) -> list[click.Parameter]:
    return list(reversed(command.__click_params__))  # type: ignore[attr-defined]


_device_option = click.option(
    "--device",
    metavar="NAME",
    help="Use the peak rates of this device instead of the recorded one, such as MI300X.",
)
_peak_option = click.option(
    "--peak",
    multiple=True,
    metavar="TYPE=RATE",
    help="Set a peak rate: bf16=989e12 (FLOP/s), memory=3.35e12 (bytes/s).",
)


def _peak(text: str) -> tuple[str, float]:
    """Return the data type and rate of a peak such as `bf16=989e12`."""
    dtype, _, rate = text.partition("=")
    with suppress(ValueError):
        number = float(rate)
        if dtype and 0 < number < 1e21:
            return dtype, number
    raise UsageError(f"--peak: {text!r} is not a peak rate", hint="for example bf16=989e12")


def print_empty_reasons(trace: Trace, name: str) -> None:
    """Print on stderr why an analysis has no rows."""
    for reason in trace.reasons_for_none(name):
        click.echo(f"note: {printable(reason)}", err=True)


def _option(param: Param) -> click.Option:
    flag = "--" + param.name.replace("_", "-")
    declaration = f"{flag}/--no-{flag[2:]}" if param.type == "BOOLEAN" else flag
    kind: click.ParamType[Any] = (
        click.Choice(param.choices) if param.choices else _CLICK_TYPES[param.type]
    )
    shown_default = "" if param.default in (None, "NULL") else f"  [default: {param.default}]"
    # Omitted options are not passed, because only the header defines defaults.
    requirement: dict[str, Any] = {"required": True} if param.is_required else {"default": None}
    return click.Option(
        [declaration, param.name],
        type=kind,
        **requirement,
        help=param.meaning + shown_default,
    )


def _explain_option(spec: Spec) -> click.Option:
    def explain(ctx: click.Context, option: click.Parameter, is_given: bool) -> None:
        del option
        if is_given and not ctx.resilient_parsing:
            click.echo(spec.sql.rstrip())
            ctx.exit()

    return click.Option(
        ["--explain"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=explain,
        help="Print the definition and the SQL instead of running it.",
    )
