"""Which analyses a breakdown consists of."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tracekit.analysis.catalog import load_catalog


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

HEALTH = "health"

FULL_BREAKDOWN = ("path_totals", "slack", "replay")
"""What a full one has besides, of traces: what the end of the run waited for."""

ADVICE = "advise"
"""What is kept with a breakdown's answers once advice was given."""

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


def reductions_kept(analyses: Collection[str], trace_count: int) -> list[str]:
    """Return the analyses of scope ``run`` whose rows a dataset keeps, in an order to run them.

    They are those of a breakdown, and what these reduce that is of scope ``run`` itself.
    """
    catalog = load_catalog()
    names = [TOTALS[name] for name in analyses if name in TOTALS]
    if trace_count > 1 and set(BREAKDOWN) <= set(analyses):
        of_ranks = (*RANKS_BREAKDOWN, *ASKED_OF_RANKS)
        reduced = [one.analysis for name in of_ranks for one in catalog.analysis(name).reduces]
        names += [name for name in reduced if catalog.analysis(name).scope == "run"]
        names += of_ranks
    return sorted(dict.fromkeys(names), key=lambda name: bool(catalog.analysis(name).reduces))
