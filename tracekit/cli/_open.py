"""Open the traces that a command was given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.cli._interpreter import tune_for_traces
from tracekit.cli._progress import progress_bar

if TYPE_CHECKING:
    from tracekit.trace import Trace


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
) -> Iterator[Trace]:
    """Open traces with a progress bar and close them afterwards.

    Args:
        traces: files, folders, globs, or one store.
        is_traced: read traces; without them only manifests and requests.
        no_cache: ingest again, keep nothing.
        rules: further classification rules.
        ceilings: what was measured on the devices.
        queries: folders of SQL files of the user's own.
        unsafe: let SQL read files and the network.
        expect_breakdown: a breakdown will be asked for.
    """
    import tracekit

    tune_for_traces()
    with progress_bar() as progress:
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
        )
    with trace:
        yield trace


@contextmanager
def closed_meanwhile(trace: Trace) -> Iterator[None]:
    """Close a trace, whose answers are all there, while something else is done."""
    with ThreadPoolExecutor(1, thread_name_prefix="tracekit-close") as pool:
        closed = pool.submit(trace.close)
        yield
        closed.result()
