"""Which analyses a breakdown consists of."""

from __future__ import annotations

from collections.abc import Collection

BREAKDOWN = (
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
    "trace": "trace_totals",
    "unrecorded": "unrecorded_totals",
    "phases": "phase_totals",
    "modules": "module_totals",
    "kernel_classes": "kernel_class_totals",
    "communication": "communication_totals",
    "idle_causes": "idle_cause_totals",
    "steps": "step_totals",
    "memcpy": "memcpy_totals",
    "serving_modules": "serving_module_totals",
}
"""What stands behind an analysis of a breakdown: its rows reduced to those of all devices."""

ASKED_OF_RANKS = ("collective_skew",)
"""What is asked of several traces besides a breakdown, as often as not."""


def reductions_kept(analyses: Collection[str], trace_count: int) -> list[str]:
    """Return the analyses of scope ``run`` whose rows a dataset keeps, in an order to run them.

    They are those of a breakdown, and what these reduce that is of scope ``run`` itself.
    """
    from tracekit.analysis.catalog import load_catalog

    catalog = load_catalog()
    names = [TOTALS[name] for name in analyses if name in TOTALS]
    if trace_count > 1 and set(BREAKDOWN) <= set(analyses):
        of_ranks = (*RANKS_BREAKDOWN, *ASKED_OF_RANKS)
        reduced = [one.analysis for name in of_ranks for one in catalog.analysis(name).reduces]
        names += [name for name in reduced if catalog.analysis(name).scope == "run"]
        names += of_ranks
    return sorted(dict.fromkeys(names), key=lambda name: bool(catalog.analysis(name).reduces))
