"""The sections of a report and of a page of runs, in reading order.

A section has charts of `tracekit.plot` and tables of analyses, whose headers define the values.
Sections with only empty tables are omitted.

A page of runs may show the numbers of arXiv 2311.03687 next to the runs' numbers, also as charts.
For curves that are printed without numbers, the page quotes the text of the publication.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tracekit.analysis.breakdown import ROLES
from tracekit.analysis.catalog import load_catalog


class Section(Struct, frozen=True):
    """One section: its heading, its charts, and the analyses that are its tables.

    The header of the first analysis defines what the section shows.

    Attributes:
        tabs: labels of tabs, in the order of the charts, if one chart is shown at a time.
        half_width: charts of half width, two per line.
        drawn: analyses that are shown as charts only.
        of_ranks: analyses that need several devices.
        of: data that the section needs: traces, several ranks, requests (``serving``), or a
        dependency graph of limited size.
        of_paper: tables and figures of arXiv 2311.03687 on the same subject, for a page of runs.
        published: the tables and figures in `of_paper` whose rows are shown.
        pictured: the tables and figures in `of_paper` that are also drawn.
    """

    name: str
    title: str
    charts: tuple[str, ...]
    tables: tuple[str, ...]
    tabs: tuple[str, ...] = ()
    half_width: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    of_ranks: tuple[str, ...] = ()
    of: Literal["traces", "ranks", "serving", "graph"] = "traces"
    published: tuple[str, ...] = ()
    pictured: tuple[str, ...] = ()
    of_paper: str = ""


TIMELINE_EVENTS, TIMELINE_HOST = "timeline_events", "timeline_host"

LATENCIES = ("latency_cdf", "ttft_cdf", "tpot_cdf", "itl_cdf", "client_wait_cdf")
"""Small charts of distributions, for runs with requests."""


def _with_placed(sections: Iterable[Section]) -> Iterator[Section]:
    """Yield the sections, with the analyses whose headers name a section (`View: report`)."""
    placed: dict[str, Section] = {section.name: section for section in sections}
    analyses = load_catalog().analyses
    for name, view in analyses.views("report").items():
        section = placed.get(view["section"]) or Section(view["section"], view["title"], (), ())
        chart = analyses.views("chart").get(name)
        drawn = () if chart is None else (chart.get("name", name),)
        placed[section.name] = replace(
            section, charts=(*section.charts, *drawn), tables=(*section.tables, name)
        )
    yield from placed.values()


_SECTIONS = (
    Section("devices", "Devices", ("timeline",), ("timeline", "run_idle", "trace", "run")),
    Section("events", "Timeline of events", (), (TIMELINE_EVENTS, TIMELINE_HOST)),
    Section(
        "steps",
        "Steps",
        ("steps", "step_spread"),
        ("steps", "step_spread", "step_totals"),
        of_ranks=("step_spread",),
    ),
    Section("phases", "Phases", ("phases",), ("phase_totals", "phases")),
    Section(
        "modules",
        "Modules",
        ("phase_modules", "modules", "class_modules"),
        ("module_totals", "modules", ROLES),
        tabs=("by phase, busy and idle", "busy time", "busy time by kernel class"),
        drawn=("module_icicle", "class_icicle"),
    ),
    Section(
        "classes", "Kernel classes", ("kernel_classes",), ("kernel_class_totals", "kernel_classes")
    ),
    Section("pivot", "Pivot", (), ("pivot_cells",)),
    Section("kernels", "Top kernels", ("kernels",), ("kernels",)),
    Section(
        "efficiency",
        "GEMMs and roofline",
        ("gemms",),
        ("gemms", "compute_memory", "roofline"),
    ),
    Section(
        "communication",
        "Communication",
        ("communication", "collectives"),
        ("communication_totals", "communication", "collectives"),
    ),
    Section(
        "ranks",
        "Ranks",
        ("rank_groups", "rank_distribution", "ranks", "collective_skew"),
        (
            *("rank_summary", "rank_groups", "rank_distribution", "stragglers", "waits"),
            *("parallel_groups", "pipeline_bubbles", "collective_skew"),
        ),
        of="ranks",
    ),
    Section(
        "idle",
        "Idle time",
        ("idle_causes", "idle_gaps"),
        ("idle_cause_totals", "idle_causes", "idle_gaps"),
    ),
    Section("unprofiled", "Unprofiled run", (), ("unprofiled", "run_phases"), of="graph"),
    Section(
        "path",
        "Critical path",
        ("critical_path", "path_totals", "slack"),
        ("path_totals", "slack", "replay", "critical_path"),
        of="graph",
    ),
    Section("copies", "Copies", ("memcpy",), ("memcpy_totals", "memcpy")),
    Section(
        "launches",
        "Launches",
        ("queue_over_time", "queue_length", "launch_delays"),
        ("queue_length", "launch_delays", "queue_over_time"),
    ),
    Section("memory", "Memory", ("memory",), ("memory_over_time",)),
    Section(
        "serving",
        "Serving",
        (
            *("throughput_over_time", "running_requests", "queue_cdf", *LATENCIES),
            *("serving_steps", "decode_batch", "requests", "request_life"),
        ),
        (
            *("throughput", "throughput_over_time", "latency", "latency_cdf", "queue_cdf"),
            "serving_window",
            *("serving_steps", "requests", "request_steps", "request_life"),
            "serving_module_totals",
        ),
        half_width=("queue_cdf", *LATENCIES),
        of="serving",
    ),
    Section(
        "bench",
        "Microbenchmarks",
        ("bench_gemm", "bench_memcpy", "bench_collectives"),
        ("bench_gemm", "bench_memcpy", "bench_collectives", "bench_launches"),
    ),
    Section("attribution", "Attribution reasons", (), ("reasons",)),
    Section("unrecorded", "Unrecorded work", (), ("unrecorded_totals", "unrecorded")),
    Section("health", "Health", (), ("health",)),
)

SECTIONS = tuple(_with_placed(_SECTIONS))

RUN_SECTIONS = (
    Section(
        "methods",
        "Throughput and memory by method",
        ("methods", "method_memory"),
        ("methods",),
        published=("table3", "table4", "table9"),
        pictured=("table3", "table9"),
        of_paper="Tables III, IV, and IX",
    ),
    Section(
        "scaling",
        "Scaling",
        ("scaling",),
        ("scaling",),
        published=("figure4",),
        of_paper="Figure 4",
    ),
    Section(
        "throughput",
        "Serving throughput",
        ("throughput",),
        ("throughput",),
        of_paper="Figure 6",
    ),
    Section(
        "latency",
        "Serving latency",
        LATENCIES,
        ("latency_cdf", "latency"),
        published=("figure7", "figure9"),
        half_width=LATENCIES,
        of_paper="Figures 7 to 10",
    ),
    Section(
        "products",
        "GEMMs",
        ("bench_gemm",),
        ("bench_gemm",),
        published=("figure11",),
        of_paper="Figure 11",
    ),
    Section(
        "copies",
        "Copies",
        ("bench_memcpy",),
        ("bench_memcpy",),
        published=("figure12",),
        of_paper="Figure 12",
    ),
    Section(
        "collectives",
        "Collectives",
        ("bench_collectives",),
        ("bench_collectives",),
        published=("figure13", "figure14", "figure15"),
        of_paper="Figures 13 to 15",
    ),
    Section("runs", "Runs", (), ("run",)),
)
