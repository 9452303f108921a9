"""`tracekit query NAME TRACE`: one analysis; its options come from the header of its SQL file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.spec import Param, Spec
from tracekit.cli._options import (
    ceilings_option,
    format_option,
    no_cache_option,
    rules_option,
    trace_argument,
    wide_option,
)
from tracekit.errors import QueryError, UsageError

if TYPE_CHECKING:
    from tracekit.trace import Trace

_CLICK_TYPES: dict[str, click.ParamType[Any]] = {
    "BIGINT": click.INT,
    "INTEGER": click.INT,
    "DOUBLE": click.FLOAT,
    "VARCHAR": click.STRING,
    "BOOLEAN": click.BOOL,
}


class _Analyses(click.Group):
    """The group whose commands are the analyses of the catalog."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(load_catalog().analyses)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        spec = load_catalog().analyses.get(cmd_name)
        return None if spec is None else _analysis_command(spec)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and args[0] not in load_catalog().analyses:
            if Path(args[0]).exists():
                raise UsageError(
                    f"{args[0]} is no analysis", hint="the name comes first: query NAME TRACE"
                )
            load_catalog().analysis(args[0])
        return super().resolve_command(ctx, args)


class _AnalysisCommand(click.Command):
    """A command whose help also shows the columns of the analysis."""

    def __init__(self, spec: Spec, **settings: Any) -> None:
        super().__init__(spec.name, **settings)
        self._spec = spec

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the columns with type and meaning; the unit is the end of a name."""
        del ctx
        with formatter.section("Columns"):
            longest = max(len(name) for name in self._spec.column_names)
            formatter.write_dl(
                [
                    (f"{column.name:<{longest}}  {column.type}", column.meaning)
                    for column in self._spec.columns
                ],
                col_max=60,
            )
        if self._spec.invariants:
            with formatter.section("For every row"):
                formatter.write_dl([(invariant, "") for invariant in self._spec.invariants])


@click.group(
    name="query",
    cls=_Analyses,
    invoke_without_command=True,
    subcommand_metavar="NAME TRACE... [OPTIONS]",
)
@click.option("--list", "list_them", is_flag=True, help="List the analyses with their questions.")
@format_option
@click.pass_context
def command(ctx: click.Context, list_them: bool, format_name: str) -> None:
    """Run one analysis; NAME --help shows its options and columns."""
    if list_them:
        from tracekit.cli._emit import emit

        emit(_list_result(), format_name)
        ctx.exit()
    if ctx.invoked_subcommand is None:
        raise UsageError("which analysis?", hint="tracekit query --list shows them")


def _list_result() -> Any:
    from tracekit.analysis.result import Column, Result

    rows = [(spec.name, spec.scope, spec.question) for spec in load_catalog().analyses.values()]
    names = ("name", "scope", "question")
    return Result("analyses", tuple(Column(name, "VARCHAR") for name in names), rows)


def _analysis_command(spec: Spec) -> click.Command:
    help_text = f"{spec.question}\n\n{spec.description}".strip()

    def run(
        traces: tuple[str, ...],
        format_name: str,
        wide: bool,
        rules: Path | None,
        ceilings: Path | None,
        no_cache: bool,
        **params: object,
    ) -> None:
        from tracekit.cli._emit import emit
        from tracekit.cli._open import open_traces

        given = {name: value for name, value in params.items() if value is not None}
        is_traced = spec.scope != "runs"
        with open_traces(
            traces, is_traced=is_traced, no_cache=no_cache, rules=rules, ceilings=ceilings
        ) as trace:
            result = trace.query(spec.name, **given)
            emit(result, format_name, wide=wide)
            if spec.scope == "trace" and spec.name != "unrecorded" and not result.rows:
                _say_what_is_missing(trace)

    shared = (
        no_cache_option,
        ceilings_option,
        rules_option,
        wide_option,
        format_option,
        trace_argument,
    )
    for decorate in shared:
        run = decorate(run)
    shared_params: list[click.Parameter] = list(reversed(run.__click_params__))  # type: ignore[attr-defined]
    taken = {param.name for param in shared_params}
    for param in spec.params:
        if param.name in taken:
            raise QueryError(f"{spec.path}: the parameter {param.name} is the name of an option")
    return _AnalysisCommand(
        spec,
        callback=run,
        params=[*map(_option, spec.params), *shared_params, _explain_option(spec)],
        help=help_text,
        short_help=spec.question,
    )


def _say_what_is_missing(trace: Trace) -> None:
    """Say on stderr why an analysis has no row, where the device's work was not recorded."""
    from tracekit.render._text import printable

    missing = trace.sql("SELECT DISTINCT reason FROM accelerator WHERE NOT is_recorded").rows
    for (reason,) in missing:
        click.echo(f"note: {printable(reason)}", err=True)


def _option(param: Param) -> click.Option:
    flag = "--" + param.name.replace("_", "-")
    declaration = f"{flag}/--no-{flag[2:]}" if param.type == "BOOLEAN" else flag
    kind: click.ParamType[Any] = (
        click.Choice(param.choices) if param.choices else _CLICK_TYPES[param.type]
    )
    shown_default = "" if param.default in (None, "NULL") else f"  [default: {param.default}]"
    # The defaults live in the header alone: an option that is not given is not passed on.
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
        help="Print the definition and the SQL, and run nothing.",
    )
