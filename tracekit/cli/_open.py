"""Open the traces that a command was given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli._interpreter import tune_for_traces
from tracekit.cli._progress import progress_bar
from tracekit.cli._ranks_progress import ranks_bar
from tracekit.errors import TraceError

if TYPE_CHECKING:
    from tracekit.engine.many_ranks import EngineChoice
    from tracekit.trace import Trace

_MAX_NAMED = 20


@contextmanager
def open_traces(
    traces: Sequence[str],
    *,
    is_traced: bool = True,
    no_cache: bool = False,
    rules: Path | None = None,
    ceilings: Path | None = None,
    queries: Sequence[Path] = (),
    unsafe: bool = False,
    expect_breakdown: bool = False,
    only_breakdown: bool = False,
    accept_summary: bool = False,
    engine: EngineChoice | None = None,
) -> Iterator[Trace]:
    """Open traces with a progress bar and close them afterwards.

    Where some of many ranks could not be read, those are named at the end, and the exit code says
    so.

    Args:
        traces: files, folders, globs, or one store.
        is_traced: read traces; without them only manifests and requests.
        no_cache: ingest again, keep nothing.
        rules: further classification rules.
        ceilings: what was measured on the devices.
        queries: folders of SQL files of the user's own.
        unsafe: let SQL read files and the network.
        expect_breakdown: a breakdown will be asked for.
        only_breakdown: and nothing else.
        accept_summary: what a breakdown of many ranks kept will do, unless it lacks what is asked.
        engine: how the traces of many ranks are read.
    """
    import tracekit

    tune_for_traces()
    with progress_bar() as progress, ranks_bar() as ranks_progress:
        trace = tracekit.open(
            *traces,
            traces=is_traced,
            cache=not no_cache,
            rules=rules,
            ceilings=ceilings,
            queries=queries,
            progress=progress,
            unsafe=unsafe,
            expect_breakdown=expect_breakdown,
            only_breakdown=only_breakdown,
            accept_summary=accept_summary,
            engine=engine,
            ranks_progress=ranks_progress,
        )
    with trace:
        yield trace
    if trace.missing:
        say_missing(trace.missing)
        from tracekit.opening import given_dataset

        # What a finished dataset lacks is no failure of this command.
        if given_dataset(traces) is None:
            raise click.exceptions.Exit(TraceError.exit_code)


def say_missing(missing: Sequence[tuple[str, str]]) -> None:
    """Name the traces that could not be read, with the reasons, on stderr.

    Args:
        missing: of each its place and the reason.
    """
    from tracekit.render._text import printable

    count = len(missing)
    click.echo(f"missing: {count} trace{'' if count == 1 else 's'} could not be read", err=True)
    for place, reason in missing[:_MAX_NAMED]:
        named = reason if place in reason else f"{place}: {reason}"
        click.echo(f"  {printable(named)}", err=True)
    if count > _MAX_NAMED:
        click.echo(f"  and {count - _MAX_NAMED} more", err=True)


@contextmanager
def closed_meanwhile(trace: Trace) -> Iterator[None]:
    """Close a trace, whose answers are all there, while something else is done."""
    with ThreadPoolExecutor(1, thread_name_prefix="tracekit-close") as pool:
        closed = pool.submit(trace.close)
        yield
        closed.result()
