"""Opens the traces in the arguments of a command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from tracekit.cli._options import Reading
from tracekit.cli._progress import progress_bar, ranks_bar
from tracekit.errors import TraceError, UsageError
from tracekit.render._text import printable

if TYPE_CHECKING:
    from tracekit.trace import Trace

_MAX_NAMED = 20


@contextmanager
def open_traces(
    traces: Sequence[str],
    reading: Reading | None = None,
    *,
    reads_traces: bool = True,
    unsafe: bool = False,
    for_breakdown: bool = False,
) -> Iterator[Trace]:
    """Open traces with a progress bar, and close them afterwards.

    At the end, list unreadable ranks, and exit with the code for unreadable traces.

    Args:
        traces: files, folders, globs, or one store.
        reading: options for reading them.
        unsafe: whether SQL may access files and the network.
        reads_traces: whether to read traces in addition to manifests and requests.
        for_breakdown: see :class:`tracekit.opening.OpenRequest`.
    """
    from tracekit.opening import OpenRequest, open_request, tune_for_traces

    reading = reading or Reading()
    tune_for_traces()
    with (
        progress_bar() as progress,
        ranks_bar() as ranks_progress,
        _rules_of(reading) as rules,
    ):
        trace = open_request(
            OpenRequest(
                traces,
                cache=not reading.no_cache,
                rules=rules,
                peak_rates=reading.peak_rates,
                capture=reading.capture,
                queries=reading.queries,
                progress=progress,
                is_unsafe=unsafe,
                engine=reading.engine,
                reads_traces=reads_traces,
                ranks_progress=ranks_progress,
                for_breakdown=for_breakdown,
            )
        )
    with trace:
        if reading.unprofiled_step is not None:
            trace.assume_unprofiled_step(reading.unprofiled_step)
        yield trace
    if trace.missing:
        print_missing(trace.missing)
        from tracekit.opening import given_dataset

        # A trace that is missing from a given dataset is not a failure of this command.
        if given_dataset(traces) is None:
            raise click.exceptions.Exit(TraceError.exit_code)


@contextmanager
def _rules_of(reading: Reading) -> Iterator[Path | None]:
    if reading.step is None:
        yield reading.rules
        return
    if reading.rules is not None:
        raise UsageError(
            "--step and --rules cannot be combined",
            hint='add a [[range]] with means = "step" to the rules file',
        )
    wild = {"*": ".*", "?": "."}
    pattern = "".join(
        wild.get(sign) or ("\\" + sign if sign in r"\.+()[]{}^$|" else sign)
        for sign in reading.step
    )
    with TemporaryDirectory(prefix="tracekit-") as folder:
        rules = Path(folder) / "step.toml"
        rules.write_text(
            "[[range]]\napplies_to = 'range'\nmeans = 'step'\nsource = '--step'\n"
            f"pattern = {json.dumps(f'^{pattern}$')}\n",
            "utf-8",
        )
        yield rules


def print_missing(missing: Sequence[tuple[str, str]]) -> None:
    """List unreadable traces with the reasons on stderr."""
    count = len(missing)
    click.echo(f"missing: {count} trace{'' if count == 1 else 's'} could not be read", err=True)
    for place, reason in missing[:_MAX_NAMED]:
        named = reason if place in reason else f"{place}: {reason}"
        click.echo(f"  {printable(named)}", err=True)
    if count > _MAX_NAMED:
        click.echo(f"  and {count - _MAX_NAMED} more", err=True)


@contextmanager
def closed_meanwhile(trace: Trace) -> Iterator[None]:
    """Close a trace in the background while the block runs. Queries are no longer allowed."""
    with ThreadPoolExecutor(1, thread_name_prefix="tracekit-close") as pool:
        closed = pool.submit(trace.close)
        yield
        closed.result()
