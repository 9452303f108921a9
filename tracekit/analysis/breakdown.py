"""Which analyses a breakdown consists of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.library import reads
from tracekit.analysis.scopes import Contents, several

if TYPE_CHECKING:
    from tracekit.analysis.result import Result


def with_placed(names: Iterable[str]) -> tuple[str, ...]:
    """Return sections of a breakdown, with those behind them that headers place there."""
    found = list(names)
    for name, view in load_catalog().analyses.views("breakdown").items():
        if view.get("after") in found:
            found.insert(found.index(view["after"]) + 1, name)
    return tuple(found)


_BREAKDOWN = (
    "trace",
    "unrecorded",
    "timeline",
    "phases",
    "modules",
    "kernel_classes",
    "communication",
    "collectives",
    "idle_causes",
    "kernels",
    "steps",
    "memcpy",
    "health",
)

BREAKDOWN = with_placed(_BREAKDOWN)
"""The analyses of a breakdown, in the order in which they are read."""

RUN_IDLE = "run_idle"
"""How much of a step is idle, in the recording and in the run: it follows the timeline."""

MFU = "mfu"
"""What it has besides where steps run on accelerators."""

ESTIMATE = ("unprofiled", "run_phases")
"""And where no step was measured without the profiler, and a replay takes little time."""

HEALTH = "health"

_MOST_DEVICES, _MOST_DEVICE_EVENTS = 16, 300_000
"""Of how many devices, with how many events each, the dependency graph is replayed unasked."""

_MOST_IN_BREAKDOWN = 100_000
"""Events of traces up to which a breakdown estimates the unprofiled step.

Of 130,000 events, the estimate takes as long as the rest of the breakdown.
"""

FULL_BREAKDOWN = ("unprofiled", "path_totals", "slack", "replay")
"""What a full one has besides, of traces: what the end of the run waited for."""

ROLES = "role_totals"
"""What a breakdown of one trace has besides where no module is recorded."""

ADVICE = "advise"
"""What advice is called among the results of a breakdown."""

RUN_HEALTH = "run_health"
"""What a run adds to the health of its traces."""

RUN_BREAKDOWN = ("run",)
"""What a breakdown has besides where the traces lie in a run folder."""

SERVING_BREAKDOWN = ("throughput", "latency", "latency_cdf")
"""And what it has where requests were recorded."""

SERVED_BREAKDOWN = ("serving_window", "serving_modules")
"""And where there are traces of such a run."""

BENCH_BREAKDOWN = ("bench_gemm", "bench_memcpy", "bench_collectives", "bench_launches")
"""And where microbenchmarks were measured."""

RANKS_BREAKDOWN = (
    "rank_summary",
    "rank_groups",
    "rank_distribution",
    "stragglers",
    "waits",
    "parallel_groups",
    "pipeline_bubbles",
    "expert_balance",
    "clock_offsets",
)
"""And what it has of several traces, behind the timeline."""

TOTALS = {
    name: view["totals"]
    for name, view in load_catalog().analyses.views("breakdown").items()
    if "totals" in view
}
"""What stands behind an analysis of a breakdown: its rows reduced to those of all devices."""

ASKED_OF_RANKS = ("collective_skew",)
"""What is asked of several traces besides a breakdown, as often as not."""


def has_modules(module_totals: Result) -> bool:
    """Return whether modules are recorded: rows in parentheses are not."""
    return not all(path.startswith("(") for path in module_totals.column("module_path"))


def breakdown_of(contents: Contents, trace_count: int) -> list[str]:
    """Return the analyses of a breakdown, in the order in which they are read.

    After each comes what :data:`TOTALS` makes of it.

    Raises:
        UsageError: there are several runs.
    """
    if not contents.has_traces and len(contents.runs) > 1:
        raise several("breakdown", contents.runs)
    names: list[str] = [*BREAKDOWN] if contents.has_traces else []
    if contents.has_traces:
        place = names.index("phases")
        names[place:place] = [RUN_IDLE, *(RANKS_BREAKDOWN if trace_count > 1 else ())]
    if contents.runs:
        names[1:1] = RUN_BREAKDOWN
        if contents.has_requests:
            served = SERVED_BREAKDOWN if contents.has_traces else ()
            names[2:2] = [*SERVING_BREAKDOWN, *served]
        if contents.has_benchmarks:
            names += BENCH_BREAKDOWN
    return [n for name in names for n in (name, TOTALS.get(name)) if n is not None]


def run_analyses_of(analyses: Collection[str], trace_count: int) -> list[str]:
    """Return the analyses of scope ``run`` whose rows a dataset has: those of its breakdown."""
    catalog = load_catalog()
    names = [TOTALS[name] for name in analyses if name in TOTALS]
    is_of_breakdown = set(BREAKDOWN) <= set(analyses)
    if is_of_breakdown:
        names.append(RUN_IDLE)
    if trace_count > 1 and is_of_breakdown:
        of_ranks = (*RANKS_BREAKDOWN, *ASKED_OF_RANKS)
        required = [name for one in of_ranks for name in reads(one)]
        names += [
            name
            for name in required
            if name in catalog.analyses and catalog.analysis(name).scope == "run"
        ]
        names += of_ranks
    return [*dict.fromkeys(names)]


def is_small(timeline: Result) -> bool:
    """Return whether it is short work to replay what these devices did."""
    counts = timeline.column("event_count")
    return len(counts) <= _MOST_DEVICES and all(count <= _MOST_DEVICE_EVENTS for count in counts)


def of_steps(results: Mapping[str, Result]) -> list[str]:
    """Return what the screen of a breakdown shows besides where steps run on accelerators."""
    if not results.get("run_idle"):
        return []
    is_measured = results["run_idle"].column("plain_step_ns")[0] is not None
    is_short = sum(results["trace"].column("event_count")) <= _MOST_IN_BREAKDOWN
    return [MFU, *(ESTIMATE if is_short and not is_measured else ())]


@dataclass(frozen=True, slots=True)
class Mfu:
    """Model FLOPs utilisation, and of which share of the time of steps it is known.

    `is_of_run` says that it is of a step without the profiler.
    """

    share: float
    known_pct: float
    is_of_run: bool


def mean_mfu(mfu: Result) -> Mfu | None:
    """Return the mean of analysis `mfu` over steps and devices, None where nothing is known."""
    # mfu_pct is ideal time in percent of step_ns: weighed by step_ns the mean is that of the sums.
    rows = mfu.to_dicts()
    known = [row for row in rows if row["mfu_pct"] is not None]
    known_ns = sum(row["step_ns"] for row in known)
    if not known_ns:
        return None
    known_pct = 100 * known_ns / sum(row["step_ns"] for row in rows)
    of_run = [row["run_mfu_pct"] for row in known]
    if None not in of_run:
        return Mfu(fmean(of_run) / 100, known_pct, is_of_run=True)
    ideal = sum(row["mfu_pct"] * row["step_ns"] for row in known)
    return Mfu(ideal / known_ns / 100, known_pct, is_of_run=False)


class UnprofiledStep(NamedTuple):
    """A step without the profiler, with its interval, and the GPU work in it; ns.

    The step is None if only its interval is known, the work if CPUs do it.
    """

    step_ns: float | None
    low_ns: float
    high_ns: float
    work_ns: float | None


def unprofiled_step(unprofiled: Result) -> UnprofiledStep | None:
    """Return the mean over ranks of analysis `unprofiled`; None if a rank has no interval."""
    if not unprofiled.rows:
        return None
    names = ("unprofiled_step_ns", "low_ns", "high_ns", "work_ns")
    step_ns, low_ns, high_ns, work_ns = (
        None if None in column else fmean(column) for column in map(unprofiled.column, names)
    )
    if low_ns is None or high_ns is None:
        return None
    return UnprofiledStep(step_ns, low_ns, high_ns, work_ns)
