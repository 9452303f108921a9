"""`tracekit export`: traces in the formats of trace viewers."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from tracekit.cli._options import Reading, reading_options, trace_argument
from tracekit.collectors.command_line import SIZE
from tracekit.errors import QueryError, StoreError, UsageError
from tracekit.render._text import printable
from tracekit.storage.temp_dirs import atomic_path
from tracekit.units import format_bytes, format_duration

if TYPE_CHECKING:
    from tracekit.export.perfetto import Exported
    from tracekit.export.selection import Selection
    from tracekit.export.stacks import Stacks, Weight

Command = TypeVar("Command", bound=Callable[..., Any])

STDOUT = Path("-")

_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_TIME = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ns|us|µs|ms|s)")
_MAX_NUMBERS = 1_000_000
_MAX_STACKS_BYTES = 2_000_000_000

_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class Choice(Struct, frozen=True):
    """Traces to export, selected ranks and times, size limit, and reading options."""

    traces: tuple[str, ...]
    selection: Selection
    max_bytes: int
    is_with_args: bool
    reading: Reading


def choice_options(command: Command) -> Command:
    """Add arguments for traces and a selection, which are passed as :class:`Choice` `choice`."""

    @functools.wraps(command)
    def with_choice(
        *,
        traces: tuple[str, ...],
        ranks: str | None,
        steps: str | None,
        from_time: str | None,
        to_time: str | None,
        no_args: bool,
        max_bytes: int,
        reading: Reading,
        **others: Any,
    ) -> Any:
        selection = _selection_of(ranks, steps, from_time, to_time)
        choice = Choice(traces, selection, max_bytes, not no_args, reading)
        return command(choice=choice, **others)

    options = (
        reading_options("rules", "peak_rates", "no_cache"),
        click.option(
            "--max-size",
            "max_bytes",
            type=SIZE,
            default="2GB",
            show_default=True,
            metavar="SIZE",
            help="Stop and delete the file if it exceeds this size, such as 500MB or 4GB.",
        ),
        click.option("--no-args", is_flag=True, help="Omit event arguments."),
        click.option(
            "--to",
            "to_time",
            metavar="TIME",
            help="Export only events that begin before this time, such as 900ms or 1.5s "
            "after the first event of the selected ranks.",
        ),
        click.option(
            "--from",
            "from_time",
            metavar="TIME",
            help="Export only events that end after this time, such as 200us or 1.2s "
            "after the first event of the selected ranks.",
        ),
        click.option(
            "--steps",
            metavar="N,N-N",
            help="Export only these training or serving steps, such as 3,5-7.",
        ),
        click.option("--ranks", metavar="N,N-N", help="Export only these ranks, such as 0-3,8."),
        trace_argument,
    )
    for option in options:
        with_choice = option(with_choice)
    return with_choice  # type: ignore[return-value]


def output_option(command: Command) -> Command:
    """Add the option for the output file to a command."""
    command = click.option("--force", is_flag=True, help="Replace the file if it exists.")(command)
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        required=True,
        help="Output file; - for stdout.",
    )(command)


@click.command(name="export")
@choice_options
@output_option
def command(output: Path, force: bool, choice: Choice) -> None:
    """Export a trace for Perfetto.

    Includes all events, with separate lanes for overlapping events of a stream, and tracks for
    results: timeline, phases, modules, idle causes, collectives, steps, requests, and counters.
    `tracekit view TRACE` opens the same in a browser.
    """
    from tracekit.cli._open import open_traces
    from tracekit.export.perfetto import export_perfetto

    with (
        written_atomically(output, force=force, max_bytes=choice.max_bytes) as out,
        open_traces(choice.traces, choice.reading) as trace,
    ):
        done = export_perfetto(trace, out.write, choice.selection, args=choice.is_with_args)
    print_written("stdout" if output == STDOUT else str(output), done, out.size_bytes)


perfetto = command


def stacks_options(command: Command) -> Command:
    """Add arguments for traces and the weight of stacks to a command."""
    options = (
        reading_options("rules", "no_cache"),
        click.option(
            "--weight",
            type=click.Choice(("host", "device")),
            default="host",
            show_default=True,
            help="Weight of a stack: self time of spans, or busy time of launched device work.",
        ),
        output_option,
        trace_argument,
    )
    for option in options:
        command = option(command)
    return command


@click.command(name="collapsed")
@stacks_options
def collapsed(**given: Any) -> None:
    """Export host stacks for flame graphs.

    A stack is a thread with its nested Python calls, ranges, ops, and runtime calls, and with
    --weight device also the kernel. The output is input for flamegraph.pl and similar tools.
    """
    from tracekit.export.stacks import write_collapsed

    _write_stacks(write_collapsed, **given)


@click.command(name="speedscope")
@stacks_options
def speedscope(**given: Any) -> None:
    """Export host stacks for speedscope."""
    from tracekit.export.stacks import write_speedscope

    _write_stacks(write_speedscope, **given)


def _write_stacks(
    write: Callable[[Stacks, Callable[[bytes], object]], None],
    *,
    traces: tuple[str, ...],
    weight: Weight,
    output: Path,
    force: bool,
    reading: Reading,
) -> None:
    from tracekit.cli._open import open_traces
    from tracekit.export.stacks import read_stacks

    with (
        written_atomically(output, force=force, max_bytes=_MAX_STACKS_BYTES) as out,
        open_traces(traces, reading) as trace,
    ):
        stacks = read_stacks(trace, weight)
        write(stacks, out.write)
    count = sum(1 for weight_ns in stacks.weights_ns if weight_ns)
    where = "stdout" if output == STDOUT else str(output)
    total = format_duration(sum(stacks.weights_ns))
    click.echo(
        printable(f"{where}: {count:,} stacks, {total}, {format_bytes(out.size_bytes)}"), err=True
    )


def print_written(where: str, done: Exported, size_bytes: int) -> None:
    """Print the path and size of the output, and notes, on stderr."""
    ranks = "1 trace" if done.trace_count == 1 else f"{done.trace_count} traces"
    parts = (ranks, f"{done.event_count:,} events", f"{done.slice_count:,} slices")
    click.echo(printable(f"{where}: {', '.join(parts)}, {format_bytes(size_bytes)}"), err=True)
    for note in done.notes:
        click.echo(printable(f"note: {note}"), err=True)


def _selection_of(
    ranks: str | None, steps: str | None, from_time: str | None, to_time: str | None
) -> Selection:
    """Return the selection that the options describe."""
    from tracekit.export.selection import Selection

    chosen = Selection(
        None if ranks is None else _numbers("--ranks", ranks),
        None if steps is None else _numbers("--steps", steps),
        None if from_time is None else _ns("--from", from_time),
        None if to_time is None else _ns("--to", to_time),
    )
    if chosen.from_ns is not None and chosen.to_ns is not None and chosen.to_ns <= chosen.from_ns:
        raise UsageError("--to must be after --from")
    return chosen


def _numbers(option: str, text: str) -> frozenset[int]:
    results: set[int] = set()
    for item in text.split(","):
        match = _NUMBERS.fullmatch(item.strip())
        if match is None:
            raise UsageError(f"{option}: {item.strip()!r} is not a number or range, such as 0-3,8")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= _MAX_NUMBERS:
            raise UsageError(f"{option}: {item.strip()!r} must start with the smaller number")
        results.update(range(first, last + 1))
    return frozenset(results)


def _ns(option: str, text: str) -> int:
    from decimal import Decimal

    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{option}: {text!r} is not a time", hint="for example 1.5s or 200us")
    return int(Decimal(match[1]) * _NS[match[2]])


class Bounded:
    """Counts written bytes, and raises an error above the limit."""

    def __init__(self, write: Callable[[bytes], object], max_bytes: int) -> None:
        self._write = write
        self._max_bytes = max_bytes
        self.size_bytes = 0

    def write(self, block: bytes) -> None:
        self.size_bytes += len(block)
        if self.size_bytes > self._max_bytes:
            raise QueryError(
                f"the export is larger than {self._max_bytes / 1e6:,.0f} MB, the limit of viewers",
                hint="select a part with --ranks, --steps, or --from and --to; omit "
                "arguments with --no-args; or raise --max-size",
            )
        self._write(block)


@contextlib.contextmanager
def written_atomically(path: Path, *, force: bool, max_bytes: int) -> Iterator[Bounded]:
    """Yield a writer for a file, which appears only if the block ends without an error."""
    if path == STDOUT:
        # Bypass the wrapper of stdout that escapes CI commands, because this is file content.
        stdout = getattr(sys.stdout, "stream", sys.stdout).buffer
        yield Bounded(stdout.write, max_bytes)
        stdout.flush()
        return
    if os.path.lexists(path) and not force:
        raise StoreError(f"{path}: already exists", hint="use --force to replace it")
    try:
        with atomic_path(path) as building, building.open("xb", buffering=0) as file:
            yield Bounded(file.write, max_bytes)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error
