"""`tracekit export`: traces in the formats of viewers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._export_options import output_option, selection_of, selection_options, size_of

if TYPE_CHECKING:
    from tracekit.export.selection import Selection
    from tracekit.export.written import Exported

    Export = Callable[..., Exported]


@click.group(name="export", no_args_is_help=True)
def command() -> None:
    """Write traces for viewers, with our attribution as tracks beside what ran."""


@command.command(name="perfetto")
@selection_options
@output_option
def perfetto(output: Path, force: bool, **options: object) -> None:
    """Write a trace for Perfetto, in its own format and exact in ns.

    Every event is there, those of a stream that overlap on lanes of their own; beside them what
    tracekit found: timeline, phases, modules, idle causes, collectives, steps, requests, counters.
    tracekit view TRACE opens the same at once.
    """
    from tracekit.export.perfetto import export_perfetto

    write_export(export_perfetto, output, force=force, **options)


@command.command(name="chrome")
@selection_options
@output_option
def chrome(output: Path, force: bool, **options: object) -> None:
    """Write Chrome's JSON, for viewers that read nothing else.

    It has no groups within groups, no units of counters, and numbers that viewers read as doubles:
    times count from the start. Where you can choose, take perfetto.
    """
    from tracekit.export.chrome import export_chrome

    write_export(export_chrome, output, force=force, **options)


def write_export(export: Export, output: Path, *, force: bool, **options: object) -> None:
    """Open traces, write them as a file, and say on stderr what was written."""
    from tracekit.cli._open import open_traces
    from tracekit.export.output import STDOUT, written_whole

    selection, max_bytes, is_with_args = export_choice(options)
    with (
        written_whole(output, force=force, max_bytes=max_bytes) as out,
        open_traces(
            options["traces"],  # type: ignore[arg-type]
            no_cache=options["no_cache"],  # type: ignore[arg-type]
            rules=options["rules"],  # type: ignore[arg-type]
            ceilings=options["ceilings"],  # type: ignore[arg-type]
        ) as trace,
    ):
        done = export(trace, out.write, selection, args=is_with_args)
    say_what_was_written("stdout" if output == STDOUT else str(output), done, out.size_bytes)


def export_choice(options: dict[str, object]) -> tuple[Selection, int, bool]:
    """Return what is chosen, the largest size, bytes, and whether arguments are written.

    Raises:
        UsageError: an option cannot be read.
    """
    selection = selection_of(
        options["ranks"],  # type: ignore[arg-type]
        options["steps"],  # type: ignore[arg-type]
        options["from_time"],  # type: ignore[arg-type]
        options["to_time"],  # type: ignore[arg-type]
    )
    return selection, size_of(str(options["max_size"])), not options["no_args"]


def say_what_was_written(where: str, done: Exported, size_bytes: int) -> None:
    """Say on stderr what was written, and what has to be known of it."""
    from tracekit.render._text import printable
    from tracekit.units import format_bytes

    ranks = "1 trace" if done.trace_count == 1 else f"{done.trace_count} traces"
    parts = (ranks, f"{done.event_count:,} events", f"{done.slice_count:,} slices")
    click.echo(printable(f"{where}: {', '.join(parts)}, {format_bytes(size_bytes)}"), err=True)
    for note in done.notes:
        click.echo(printable(f"note: {note}"), err=True)
