"""What stands in a page of runs: the pictures of the paper, ours, and the paper's figures beside.

The figures are those of arXiv 2311.03687. Where it prints numbers, they are drawn next to ours;
where it has a picture alone, what its text says of it stands there.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.report.sections import LATENCIES


@dataclass(frozen=True, slots=True)
class RunSection:
    """One section: its heading, our charts and the analyses that are its tables, and the paper's.

    `of_paper` are the numbers of the tables and figures in the paper.

    The first table's header defines what the section shows. `published` are tables of the paper,
    of which those with numbers in `drawn` are pictures, too. Charts in `beside` are half as wide.
    """

    name: str
    title: str
    charts: tuple[str, ...]
    tables: tuple[str, ...]
    published: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    of_paper: str = ""


RUN_SECTIONS = (
    RunSection(
        "methods",
        "Tokens a second and memory of the methods",
        ("methods", "method_memory"),
        ("methods",),
        ("table3", "table4", "table9"),
        ("table3", "table9"),
        of_paper="Tables III, IV and IX",
    ),
    RunSection("scaling", "Scaling", ("scaling",), ("scaling",), ("figure4",), of_paper="Figure 4"),
    RunSection(
        "throughput",
        "Throughput of serving",
        ("throughput",),
        ("throughput",),
        of_paper="Figure 6",
    ),
    RunSection(
        "latency",
        "Latency of serving",
        LATENCIES,
        ("latency_cdf", "latency"),
        ("figure7", "figure9"),
        beside=LATENCIES,
        of_paper="Figures 7 to 10",
    ),
    RunSection(
        "products",
        "Matrix products",
        ("bench_gemm",),
        ("bench_gemm",),
        ("figure11",),
        of_paper="Figure 11",
    ),
    RunSection(
        "copies",
        "Copies",
        ("bench_memcpy",),
        ("bench_memcpy",),
        ("figure12",),
        of_paper="Figure 12",
    ),
    RunSection(
        "collectives",
        "Collectives",
        ("bench_collectives",),
        ("bench_collectives",),
        ("figure13", "figure14", "figure15"),
        of_paper="Figures 13 to 15",
    ),
    RunSection("runs", "The runs", (), ("run",)),
)
