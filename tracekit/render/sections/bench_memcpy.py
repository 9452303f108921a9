"""How fast copies are: latency and bandwidth of each direction, or every point and its curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._curve_grid import most_curves
from tracekit.render._rate_curve import RateCurve, rate_curve_lines
from tracekit.render.sections._bench import NONE, interval_text, machine, point_lines, runs_of
from tracekit.render.sections._heading import heading, more
from tracekit.units import format_bytes, format_bytes_per_s, format_duration, format_pct

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 82

RATE = "bytes_per_s"
KIND = ("op", "memory")
TITLE = "Copies measured"
ANALYSIS = "bench_memcpy"


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return a line for each direction; in full every point, and curves."""
    del wide
    if not data.get(ANALYSIS):
        return []
    rows = data[ANALYSIS].to_dicts()
    if full:
        return [*drawing(rows, KIND, RATE, width), *_all(rows, width)]
    best = [row for row in rows if row["is_best"]]
    out = [
        heading(
            TITLE,
            f"latency of the smallest, bandwidth of the fastest, share of the data sheet's · "
            f"{machine(rows)}",
            width,
        )
    ]
    several = len(runs_of(rows)) > 1
    smallest = [smallest_of(rows, row, KIND) for row in best]
    out += point_lines(
        [label(row, KIND, with_run=several) for row in best],
        [
            [format_duration(row["median_ns"]) for row in smallest],
            [format_bytes(row["message_bytes"]) for row in smallest],
            [format_bytes_per_s(row[RATE]) for row in best],
            [format_bytes(row["message_bytes"]) for row in best],
            [
                NONE if row["peak_pct"] is None else f"{format_pct(row['peak_pct'])} %"
                for row in best
            ],
        ],
        ["" for _ in best],
        width,
    )
    return out + more(len(rows) - len(best), "point", "points")


def _all(rows: list[dict[str, Any]], width: int) -> list[Text]:
    what = "bytes, time, its 95 % interval, bandwidth, share of the data sheet's"
    several = len(runs_of(rows)) > 1
    return [
        heading(TITLE, f"{what} · {machine(rows)}", width),
        *point_lines(
            [label(row, KIND, with_run=several) for row in rows],
            [
                *point_figures(rows),
                [NONE if row[RATE] is None else format_bytes_per_s(row[RATE]) for row in rows],
                [
                    NONE if row["peak_pct"] is None else f"{format_pct(row['peak_pct'])} %"
                    for row in rows
                ],
            ],
            [row["reason"] or "" for row in rows],
            width,
        ),
    ]


def point_figures(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Return the columns that copies and collectives share: bytes, time and its interval."""
    sizes = [row["message_bytes"] for row in rows]
    times = [row["median_ns"] for row in rows]
    return [
        [NONE if size is None else format_bytes(size) for size in sizes],
        [NONE if time is None else format_duration(time) for time in times],
        [interval_text(row) for row in rows],
    ]


def label(row: Mapping[str, Any], kind: tuple[str, ...], *, with_run: bool) -> str:
    """Return what a point is of, but for its size."""
    words = [row["run"] if with_run else None, *(row[name] for name in kind)]
    return " ".join(str(word) for word in words if word is not None)


def smallest_of(
    rows: list[dict[str, Any]], like: Mapping[str, Any], kind: tuple[str, ...]
) -> dict[str, Any]:
    """Return the point of the smallest size among those of one kind that have a time."""
    key = ("run", "device", *kind)
    (smallest,) = (
        row for row in rows if row["is_smallest"] and all(row[name] == like[name] for name in key)
    )
    return smallest


def drawing(rows: list[dict[str, Any]], kind: tuple[str, ...], rate: str, width: int) -> list[Text]:
    """Return curves of bandwidth over bytes, and an empty line; nothing without a curve."""
    several = len(runs_of(rows)) > 1
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row[rate] is not None and row["message_bytes"]:
            points = found.setdefault(label(row, kind, with_run=several), {})
            points[row["message_bytes"]] = row[rate]
    drawn = [
        RateCurve(name, sorted(points), [points[size] for size in sorted(points)])
        for name, points in found.items()
        if len(points) > 1
    ]
    if not drawn:
        return []
    kept = drawn[: most_curves()]
    return [
        heading("Bandwidth over bytes", "GB = 1e9 bytes", width),
        *rate_curve_lines(kept, width, lambda size: format_bytes(round(size)), format_bytes_per_s),
        *more(len(drawn) - len(kept), "curve", "curves"),
        Text(),
    ]
