"""Analyses of a breakdown, and figures derived from them that several outputs show."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.library import reads
from tracekit.analysis.scopes import Contents, several

if TYPE_CHECKING:
    from tracekit.analysis.result import Result


def with_placed(names: Iterable[str]) -> tuple[str, ...]:
    """Insert the analyses whose header setting `after` names one of the given analyses."""
    result = list(names)
    for name, view in load_catalog().analyses.views("breakdown").items():
        if view.get("after") in result:
            result.insert(result.index(view["after"]) + 1, name)
    return tuple(result)


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
"""The analyses of every breakdown of traces, in display order."""

RUN_IDLE = "run_idle"
"""Analysis of the idle share of the recorded and the unprofiled step, shown after the timeline."""

MFU = "mfu"
"""Analysis added for steps on accelerators."""

ESTIMATE = ("unprofiled", "run_phases")
"""Analyses added for steps on accelerators if the trace is small and no unprofiled step was
measured."""

HEALTH = "health"

_MAX_DEVICES, _MAX_DEVICE_EVENTS = 16, 300_000
"""Limits up to which commands replay the dependency graph by default: number of devices, and number
of events per device.
"""

_MAX_IN_BREAKDOWN = 100_000
"""Maximum number of trace events for which a breakdown estimates the unprofiled step.

With 130,000 events, the estimate takes as long as the rest of the breakdown.
"""

FULL_BREAKDOWN = ("unprofiled", "path_totals", "slack", "replay")
"""Analyses added by --full: the critical path and the replay."""

ROLES = "role_totals"
"""Analysis added for a single trace without recorded modules."""

ADVICE = "advise"
"""Name of the advice among the results of a breakdown."""

RUN_HEALTH = "run_health"
"""Analysis of the health of a run, added to the health of its traces."""

RUN_BREAKDOWN = ("run",)
"""Analyses added for traces in a run folder."""

SERVING_BREAKDOWN = ("throughput", "latency", "latency_cdf")
"""Analyses added for runs with recorded requests."""

SERVED_BREAKDOWN = ("serving_window", "serving_modules")
"""Analyses added for traces of runs with recorded requests."""

BENCH_BREAKDOWN = ("bench_gemm", "bench_memcpy", "bench_collectives", "bench_launches")
"""Analyses added for runs with microbenchmarks."""

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
"""Analyses added for several traces, after the timeline."""

TOTALS = {
    name: view["totals"]
    for name, view in load_catalog().analyses.views("breakdown").items()
    if "totals" in view
}
"""The analysis with totals over all devices, by the name of its per-device analysis."""

ASKED_OF_RANKS = ("collective_skew",)
"""Analyses that users often run on several traces in addition to a breakdown."""


def has_modules(module_totals: Result) -> bool:
    """Return whether modules are recorded; rows in parentheses are not modules."""
    return not all(path.startswith("(") for path in module_totals.column("module_path"))


def breakdown_of(contents: Contents, trace_count: int) -> list[str]:
    """Return the analyses of a breakdown in display order, each followed by its totals."""
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
    """Return the analyses of scope ``run`` whose rows a dataset contains."""
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
    """Return whether replaying the dependency graph of these devices is fast."""
    counts = timeline.column("event_count")
    return len(counts) <= _MAX_DEVICES and all(count <= _MAX_DEVICE_EVENTS for count in counts)


def of_steps(results: Mapping[str, Result]) -> list[str]:
    """Return the analyses that a breakdown adds if steps ran on accelerators."""
    if not results.get("run_idle"):
        return []
    is_measured = results["run_idle"].column("unprofiled_step_ns")[0] is not None
    is_short = sum(results["trace"].column("event_count")) <= _MAX_IN_BREAKDOWN
    return [MFU, *(ESTIMATE if is_short and not is_measured else ())]


class Mfu(Struct, frozen=True):
    """Model FLOPs utilization, and the share of step time for which it is known.

    `is_of_run` means that it refers to unprofiled steps.
    """

    share: float
    known_pct: float
    is_of_run: bool


def mean_mfu(mfu: Result) -> Mfu | None:
    """Return the mean of analysis `mfu` over steps and devices; None if it is unknown."""
    # mfu_pct is ideal time as a share of step_ns, so it is weighted by step_ns.
    rows = mfu.to_dicts()
    known = [row for row in rows if row["mfu_pct"] is not None]
    known_ns = sum(row["step_ns"] for row in known)
    if not known_ns:
        return None
    known_pct = 100 * known_ns / sum(row["step_ns"] for row in rows)
    of_run = [row["run_mfu_pct"] for row in known]
    if None not in of_run:
        return Mfu(fsum(of_run) / len(of_run) / 100, known_pct, is_of_run=True)
    ideal = sum(row["mfu_pct"] * row["step_ns"] for row in known)
    return Mfu(ideal / known_ns / 100, known_pct, is_of_run=False)


class UnprofiledStep(NamedTuple):
    """Unprofiled step time, its interval, and the time of GPU work in the step.

    `step_ns` is None if only the interval is known. `work_ns` is None for steps on CPUs.
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
        None if None in column else fsum(column) / len(column)
        for column in map(unprofiled.column, names)
    )
    if low_ns is None or high_ns is None:
        return None
    return UnprofiledStep(step_ns, low_ns, high_ns, work_ns)
