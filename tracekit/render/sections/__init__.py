"""The sections of the breakdown screen, in display order.

A section is omitted if its analysis has no rows. Section `health` lists missing data, which is
never shown as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from tracekit.analysis.breakdown import TOTALS, with_placed
from tracekit.analysis.catalog import load_catalog
from tracekit.render.sections import (
    bench,
    comparison,
    device_time,
    ranks,
    serving,
    trace,
)
from tracekit.render.sections._layout import Screen, bars_of

if TYPE_CHECKING:
    from rich.text import Text

    from tracekit.analysis.result import Result


class Section(Struct, frozen=True):
    """A section of the screen.

    Attributes:
        draw: returns its lines.
        needs: analysis whose rows it requires.
        tables: analyses by title that `--full` shows with all rows instead of calling `draw`.
        alone: position if only the analysis is queried: above or instead of the table.
        follows: the section after which it appears without an empty line.
    """

    draw: Callable[[Screen], list[Text]]
    needs: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    alone: Literal["above", "instead"] | None = None
    follows: str = ""

    def lines(
        self, data: Mapping[str, Result], width: int, *, full: bool = False, wide: bool = False
    ) -> list[Text]:
        """Return the lines, each at most `width` cells wide.

        `full` shows tables with all rows; `wide` shows all columns of these tables.
        """
        if self.needs is not None and not data.get(self.needs):
            return []
        screen = Screen(data, width, full, wide)
        return screen.tables(self.tables) if full and self.tables else self.draw(screen)


def _nothing(_screen: Screen) -> list[Text]:
    """Return no lines: only `--full` shows the section."""
    return []


def _described(sections: Mapping[str, Section]) -> dict[str, Section]:
    """Return all sections in order, including those defined in SQL headers."""
    views = load_catalog().analyses.views("breakdown")
    result = {}
    for name in with_placed(sections):
        drawn = TOTALS.get(name, name)
        is_described = "title" in views.get(drawn, {})
        result[name] = Section(bars_of(drawn), drawn) if is_described else sections[name]
    return result


_SECTIONS = {
    "comparison": Section(
        comparison.total,
        "comparison",
        {
            "Comparison": "comparison",
            "Noise": "comparison_noise",
            "Effects": "comparison_effects",
        },
    ),
    "comparison_split": Section(
        comparison.split,
        "comparison_split",
        {"Split": "comparison_split", "Work": "comparison_work", "Modules": "comparison_modules"},
    ),
    "comparison_noise": Section(comparison.noise, "comparison_noise"),
    "comparison_setup": Section(
        comparison.setup, "comparison_setup", {"Configuration differences": "comparison_setup"}
    ),
    "comparison_serving": Section(comparison.serving),
    "history": Section(comparison.history, "history"),
    "run": Section(trace.run, "run", {"Run": "run"}),
    "trace": Section(trace.trace, "trace_totals", follows="run"),
    "unrecorded": Section(trace.unrecorded, "unrecorded"),
    "throughput": Section(serving.throughput, "throughput", {"Throughput": "throughput"}),
    "latency": Section(serving.latency, "latency", {"Latency": "latency"}),
    "latency_cdf": Section(serving.latency_cdf, "latency_cdf", alone="above"),
    "serving_window": Section(
        serving.serving_window, "serving_window", {"Steady state": "serving_window"}
    ),
    "steps": Section(device_time.step, "step_totals"),
    "timeline": Section(device_time.timeline, "timeline"),
    "ranks": Section(ranks.ranks, "rank_distribution"),
    "stragglers": Section(ranks.stragglers),
    "parallel_groups": Section(ranks.parallel_groups),
    "phases": Section(device_time.phases, "phase_totals", {"Phases": "phases"}),
    "kernel_classes": Section(_nothing, "kernel_class_totals"),
    "modules": Section(device_time.modules, "module_totals", {"Modules": "modules"}),
    "serving_modules": Section(
        serving.serving_modules, "serving_module_totals", {"Serving": "serving_modules"}
    ),
    "communication": Section(device_time.communication, "communication_totals"),
    "idle_causes": Section(device_time.idle_causes, "idle_cause_totals"),
    "kernels": Section(device_time.kernels, "kernels", {"Kernels": "kernels"}),
    "step_list": Section(_nothing, "steps", {"Steps": "steps"}),
    "memcpy": Section(device_time.memcpy, "memcpy_totals", {"Copies": "memcpy"}),
    "unprofiled": Section(_nothing, "unprofiled", {"Without the profiler": "unprofiled"}),
    "path_totals": Section(_nothing, "path_totals", {"Critical path": "path_totals"}),
    "slack": Section(_nothing, "slack", {"Gain without it": "slack"}),
    "replay": Section(_nothing, "replay", {"Replay": "replay"}),
    "bench_gemm": Section(bench.bench_gemm, "bench_gemm", alone="instead"),
    "bench_memcpy": Section(bench.bench_memcpy, "bench_memcpy", alone="instead"),
    "bench_collectives": Section(bench.bench_collectives, "bench_collectives", alone="instead"),
    "bench_launches": Section(bench.bench_launches, "bench_launches", alone="instead"),
    "health": Section(trace.health, "health", {"Health": "health"}),
}

SECTIONS = _described(_SECTIONS)
