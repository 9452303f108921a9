"""How fast collectives are: latency and bus bandwidth of each, or every point and its curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render.sections._bench import NONE, machine, point_lines, runs_of
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections.bench_memcpy import drawing, label, point_figures, smallest_of
from tracekit.units import format_bytes, format_bytes_per_s, format_duration

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 83

_KIND = ("op", "backend", "group_size")
_ANALYSIS = "bench_collectives"


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return a line for each collective; in full every point, and curves."""
    del wide
    if not data.get(_ANALYSIS):
        return []
    rows = data[_ANALYSIS].to_dicts()
    several = len(runs_of(rows)) > 1
    if full:
        columns = ("algorithm_bytes_per_s", "bus_bytes_per_s")
        what = "bytes, time of the slowest rank, its 95 % interval, bandwidth, bus"
        return [
            *drawing(rows, _KIND, "bus_bytes_per_s", width),
            heading("Collectives measured", f"{what} · {machine(rows)}", width),
            *point_lines(
                [label(row, _KIND, with_run=several) for row in rows],
                [
                    *point_figures(rows),
                    *(
                        [
                            NONE if row[name] is None else format_bytes_per_s(row[name])
                            for row in rows
                        ]
                        for name in columns
                    ),
                ],
                [row["reason"] or "" for row in rows],
                width,
            ),
        ]
    best = [row for row in rows if row["is_best"]]
    what = "ranks, latency of the smallest, bandwidth of the fastest, bus"
    out = [heading("Collectives measured", f"{what} · {machine(rows)}", width)]
    smallest = [smallest_of(rows, row, _KIND) for row in best]
    out += point_lines(
        [label(row, _KIND, with_run=several) for row in best],
        [
            [format_duration(row["median_ns"]) for row in smallest],
            [format_bytes(row["message_bytes"]) for row in smallest],
            [format_bytes_per_s(row["algorithm_bytes_per_s"]) for row in best],
            [format_bytes_per_s(row["bus_bytes_per_s"]) for row in best],
            [format_bytes(row["message_bytes"]) for row in best],
        ],
        ["" for _ in best],
        width,
    )
    return out + more(len(rows) - len(best), "point", "points")
