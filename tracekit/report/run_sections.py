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


RUN_SECTIONS = (
    RunSection(
        "methods",
        "Tokens a second and memory of the methods (Tables III, IV and IX)",
        ("methods", "method_memory"),
        ("methods",),
        ("table3", "table4", "table9"),
        ("table3", "table9"),
    ),
    RunSection("scaling", "Scaling (Figure 4)", ("scaling",), ("scaling",), ("figure4",)),
    RunSection("throughput", "Throughput of serving (Figure 6)", ("throughput",), ("throughput",)),
    RunSection(
        "latency",
        "Latency of serving (Figures 7 to 10)",
        LATENCIES,
        ("latency_cdf", "latency"),
        ("figure7", "figure9"),
        beside=LATENCIES,
    ),
    RunSection(
        "products", "Matrix products (Figure 11)", ("bench_gemm",), ("bench_gemm",), ("figure11",)
    ),
    RunSection("copies", "Copies (Figure 12)", ("bench_memcpy",), ("bench_memcpy",), ("figure12",)),
    RunSection(
        "collectives",
        "Collectives (Figures 13 to 15)",
        ("bench_collectives",),
        ("bench_collectives",),
        ("figure13", "figure14", "figure15"),
    ),
    RunSection("runs", "The runs", (), ("run",)),
)
