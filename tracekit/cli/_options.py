"""The arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from tracekit.render import formats

trace_argument = click.argument("traces", metavar="TRACE...", nargs=-1, required=True)

format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice(formats()),
    default="table",
    show_default=True,
    help="Form of the output; csv and json hold exact base units.",
)

wide_option = click.option(
    "--wide", is_flag=True, help="Show every column of a table, however wide the terminal is."
)

baselines_option = click.option(
    "--baselines",
    metavar="DIR",
    help="The folder of baselines, or its URL.  [default: .tracekit/baselines]",
)

per_option = click.option(
    "--per",
    type=click.Choice(["step", "window"]),
    help="What times are divided by.  [default: step where several are marked, else window]",
)

skip_option = click.option(
    "--skip",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Leave out the first N steps of each run.",
)

no_cache_option = click.option(
    "--no-cache", is_flag=True, help="Read the trace again and keep nothing in the cache."
)

rules_option = click.option(
    "--rules",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Further rules that tell the class of a kernel by its name.",
)

queries_option = click.option(
    "--queries",
    type=click.Path(path_type=Path),
    metavar="DIR",
    multiple=True,
    help="A folder of SQL files of your own; may be given several times.  "
    "[default: those of TRACEKIT_QUERIES]",
)

ceilings_option = click.option(
    "--ceilings",
    type=click.Path(path_type=Path),
    metavar="FILE|RUN",
    help="What tracekit bench measured on the devices; else what is known of them from before.",
)
