"""`tracekit health`: how far the trace can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._engine_options import engine_options
from tracekit.cli._options import format_option, no_cache_option, rules_option, trace_argument

if TYPE_CHECKING:
    from tracekit.engine.many_ranks import EngineChoice


@click.command(name="health")
@trace_argument
@format_option
@rules_option
@no_cache_option
@engine_options
def command(
    traces: tuple[str, ...],
    format_name: str,
    rules: Path | None,
    no_cache: bool,
    engine: EngineChoice | None,
) -> None:
    """Show how much of the trace every figure rests on."""
    from tracekit.cli._emit import emit
    from tracekit.cli._open import open_traces

    with open_traces(
        traces, no_cache=no_cache, rules=rules, accept_summary=True, engine=engine
    ) as trace:
        emit(trace.health(), format_name)
