"""Checks whether the input has the data of an analysis: traces, runs, requests, or benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tracekit.analysis.library import reads_of
from tracekit.analysis.spec import Spec
from tracekit.errors import QueryError, UsageError


class Contents(NamedTuple):
    """The kinds of data in a store, which determine the analyses that it can answer."""

    has_traces: bool
    runs: tuple[str, ...]
    has_requests: bool
    has_benchmarks: bool
    files: tuple[str, ...] = ()


_REQUEST_MACROS = frozenset({"request_times", "request_latency"})
"""Macros whose use identifies analyses of requests."""

_BENCH_MACROS = frozenset({"bench_points"})
"""Macros whose use identifies analyses of microbenchmarks."""

_MAX_NAMED = 10


def check_scope(spec: Spec, contents: Contents) -> None:
    """Raise an error if the input lacks the data that an analysis needs."""
    if spec.scope == "runs":
        if not contents.runs:
            raise QueryError(
                f"{spec.name} needs a run, but there is no run.json next to the trace",
                hint="pass a folder written by tracekit collect",
            )
        count = len(contents.runs)
        have = f"{contents.runs[0]} has" if count == 1 else f"the {count} runs have"
        if not contents.has_requests and not _REQUEST_MACROS.isdisjoint(reads_of(spec)):
            raise QueryError(
                f"{spec.name} needs requests, but {have} none",
                hint="record requests with tracekit collect --stage serve",
            )
        if not contents.has_benchmarks and not _BENCH_MACROS.isdisjoint(reads_of(spec)):
            raise QueryError(
                f"{spec.name} needs microbenchmarks, but {have} none",
                hint="measure them with tracekit bench",
            )
    elif not contents.has_traces:
        if len(contents.runs) > 1:
            raise several(spec.name, contents.runs)
        raise QueryError(
            f"{spec.name} needs a trace, but {contents.runs[0]} has none",
            hint="tracekit query run shows the result of the run",
        )


def several(name: str, runs: Sequence[str]) -> UsageError:
    """Return the error for an analysis that needs one run if several are open."""
    shown = [Path(run).name for run in runs[:_MAX_NAMED]]
    more = len(runs) - len(shown)
    return UsageError(
        f"{name} needs one run, but there are {len(runs)}: {', '.join(shown)}"
        + (f" and {more} more" if more else ""),
        hint=f"choose one, for example {runs[0]}",
    )
