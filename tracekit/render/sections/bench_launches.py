"""What it costs to launch work: one line for each kind of launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render.sections._bench import NONE, interval_text, machine, point_lines, runs_of
from tracekit.render.sections._heading import heading
from tracekit.units import format_duration

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 84

_CLOCKS = {"wall_clock": "(host)", "cuda_event": "(device)"}


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return the time of each kind of launch, which is as short in full."""
    del full, wide
    if not data.get("bench_launches"):
        return []
    rows = data["bench_launches"].to_dicts()
    several = len(runs_of(rows)) > 1
    labels = []
    for row in rows:
        words = [row["run"] if several else None, row["op"], row["series"]]
        words.append(_CLOCKS.get(row["timer"], row["timer"]))
        labels.append(" ".join(word for word in words if word))
    return [
        heading("Launches", f"time of one call, its 95 % interval · {machine(rows)}", width),
        *point_lines(
            labels,
            [
                [NONE if r["median_ns"] is None else format_duration(r["median_ns"]) for r in rows],
                [interval_text(row) for row in rows],
            ],
            [row["reason"] or "" for row in rows],
            width,
        ),
    ]
