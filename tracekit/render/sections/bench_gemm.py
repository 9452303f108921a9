"""How fast matrices are multiplied: the fastest of each kind, or every point and its curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._curve_grid import most_curves
from tracekit.render._rate_curve import RateCurve, rate_curve_lines
from tracekit.render.sections._bench import NONE, interval_text, machine, point_lines, runs_of
from tracekit.render.sections._heading import heading, more
from tracekit.units import format_duration, format_flop_per_s, format_pct

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 81

_Rows = list[dict[str, Any]]


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return a line for the fastest point of each op and type; in full every point, and curves."""
    del wide
    if not data.get("bench_gemm"):
        return []
    rows = data["bench_gemm"].to_dicts()
    shown = rows if full else [row for row in rows if row["is_best"]]
    what = "time, its 95 % interval, rate, share of the data sheet's peak"
    title = "" if full else "fastest of each type: "
    out = [heading("Products", f"{title}{what} · {machine(rows)}", width)]
    several = len(runs_of(shown)) > 1
    out += point_lines(
        [_label(row, with_run=several, with_series=full) for row in shown],
        [
            [_shape(row) for row in shown],
            [_text(row["median_ns"], format_duration) for row in shown],
            [interval_text(row) for row in shown],
            [_text(row["flop_per_s"], format_flop_per_s) for row in shown],
            [_text(row["peak_pct"], lambda pct: f"{format_pct(pct)} %") for row in shown],
        ],
        [(row["reason"] or "") if row["flop_per_s"] is None else "" for row in shown],
        width,
    )
    if not full:
        return out + more(len(rows) - len(shown), "point", "points")
    drawn = curves(rows, several=several)
    return [*_drawing(drawn, width), *out]


def curves(rows: _Rows, *, several: bool) -> list[RateCurve]:
    """Return the curves of a result: the rate over M, one for each series and type.

    Args:
        rows: of analysis `bench_gemm`.
        several: they are of several runs, whose names tell curves apart.
    """
    found: dict[tuple[str, ...], dict[int, float]] = {}
    for row in rows:
        if row["series"] and row["flop_per_s"] is not None:
            run = row["run"] if several else ""
            points = found.setdefault((run, row["series"], row["dtype"] or ""), {})
            points[row["m"]] = row["flop_per_s"]
    made = []
    for name, points in found.items():
        if len(points) > 1:
            sizes = sorted(points)
            rates = [points[size] for size in sizes]
            made.append(RateCurve(" · ".join(filter(None, name)), list(sizes), rates))
    return made


def _drawing(drawn: list[RateCurve], width: int) -> list[Text]:
    if not drawn:
        return []
    kept = drawn[: most_curves()]
    return [
        heading("Rate over M", "operations a second", width),
        *rate_curve_lines(kept, width, lambda size: f"M {size:,.0f}", format_flop_per_s),
        *more(len(drawn) - len(kept), "curve", "curves"),
        Text(),
    ]


def _label(row: Mapping[str, Any], *, with_run: bool, with_series: bool) -> str:
    words = [row["run"] if with_run else None, row["op"], row["dtype"]]
    words.append(row["series"] if with_series else None)
    return " ".join(word for word in words if word)


def _shape(row: Mapping[str, Any]) -> str:
    if row["m"] is None:
        return NONE
    batch = f"{row['batch']} × " if row["batch"] != 1 else ""
    return f"{batch}{row['m']}×{row['n']}×{row['k']}"


def _text(value: Any, form: Any) -> str:
    return NONE if value is None else form(value)
