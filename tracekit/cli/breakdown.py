"""`tracekit breakdown`: the summary of a run on one screen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._engine_options import engine_options
from tracekit.cli._options import (
    ceilings_option,
    format_option,
    no_cache_option,
    rules_option,
    trace_argument,
)

if TYPE_CHECKING:
    from tracekit.engine.many_ranks import EngineChoice


@click.command(name="breakdown")
@trace_argument
@click.option("--full", is_flag=True, help="Show every row instead of the top ones.")
@click.option(
    "--wide", is_flag=True, help="With --full: every column, however wide the terminal is."
)
@format_option
@rules_option
@ceilings_option
@no_cache_option
@engine_options
def command(
    traces: tuple[str, ...],
    full: bool,
    wide: bool,
    format_name: str,
    rules: Path | None,
    ceilings: Path | None,
    no_cache: bool,
    engine: EngineChoice | None,
) -> None:
    """Summarise where the time of the trace went.

    The parts of each device's window add up to it exactly; the last line says how far the trace can
    be trusted.
    """
    from tracekit.cli._emit import emit
    from tracekit.cli._open import closed_meanwhile, open_traces

    with open_traces(
        traces,
        no_cache=no_cache,
        rules=rules,
        ceilings=ceilings,
        only_breakdown=True,
        engine=engine,
    ) as trace:
        results = trace.breakdown()
        with closed_meanwhile(trace):
            emit(results, format_name, full=full, wide=wide)
