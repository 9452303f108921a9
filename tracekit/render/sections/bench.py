"""Sections on microbenchmarks: GEMMs, copies, collectives, and launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.text import Text

from tracekit.render._cells import NOTHING, TextColumn
from tracekit.render._curves import MAX_CURVES, RateCurve, rate_curve_lines
from tracekit.render._text import printable
from tracekit.render.sections._layout import Row, Screen, figures, more
from tracekit.units import format_bytes, format_bytes_per_s, format_flop_per_s

Rows = list[dict[str, Any]]

_CLOCKS = {"wall_clock": "(host)", "cuda_event": "(device)"}


def bench_memcpy(screen: Screen) -> list[Text]:
    """Return a line per direction, or all points and curves with `full`."""
    rates = {"bytes_per_s": "bandwidth", "peak_pct": "of peak"}
    return _moved(screen, "bench_memcpy", "Copies", ("op", "memory"), "bytes_per_s", rates)


def bench_collectives(screen: Screen) -> list[Text]:
    """Return a line per collective, or all points and curves with `full`."""
    kind = ("op", "backend", "group_size")
    rates = {"algorithm_bytes_per_s": "bandwidth", "bus_bytes_per_s": "bus bandwidth"}
    return _moved(screen, "bench_collectives", "Collectives", kind, "bus_bytes_per_s", rates)


def _moved(
    screen: Screen,
    analysis: str,
    title: str,
    kind: tuple[str, ...],
    curve: str,
    rates: Mapping[str, str],
) -> list[Text]:
    """Return the fastest points and the latency of the smallest size, or all points and curves."""
    rows = screen.rows(analysis)
    labels = _labels(rows, kind)
    if not screen.full:
        best = [row for row in rows if row["is_best"]]
        smallest = [_smallest_of(rows, row, kind) for row in best]
        columns = [
            *figures(smallest, {"median_ns": "latency", "message_bytes": "at size"}),
            *figures(best, {**rates, "message_bytes": "at size"}),
        ]
        return _points(screen, title, rows, best, _labels(best, kind, of=rows), columns)
    result: dict[str, dict[int, float]] = {}
    for row, label in zip(rows, labels, strict=True):
        if row[curve] is not None and row["message_bytes"]:
            result.setdefault(label, {})[row["message_bytes"]] = row[curve]
    columns = [
        TextColumn("", "size", [format_bytes(row["message_bytes"] or 0) for row in rows], True),
        *figures(rows, {"median_ns": "time"}),
        _interval(rows),
        *figures(rows, rates),
    ]
    axes = ("Bandwidth by message size", "GB = 1e9 bytes")
    return [
        *_drawn(screen, result, axes, lambda size: format_bytes(round(size)), format_bytes_per_s),
        *_points(screen, title, rows, rows, labels, columns),
    ]


def _smallest_of(rows: Rows, like: Row, kind: tuple[str, ...]) -> Row:
    """Return the measured point of the smallest size of a kind."""
    key = ("run", "device", *kind)
    (smallest,) = (
        row for row in rows if row["is_smallest"] and all(row[name] == like[name] for name in key)
    )
    return smallest


def bench_gemm(screen: Screen) -> list[Text]:
    """Return a line for the fastest point per op and type, or all points and curves with `full`."""
    rows = screen.rows("bench_gemm")
    shown = rows if screen.full else [row for row in rows if row["is_best"]]
    columns = [
        TextColumn("", "shape", [_shape(row) for row in shown], False),
        *figures(shown, {"median_ns": "time"}),
        _interval(shown),
        *figures(shown, {"flop_per_s": "rate", "peak_pct": "of peak"}),
    ]
    labels = _labels(shown, ("op", "dtype", "series") if screen.full else ("op", "dtype"), of=rows)
    out = _points(screen, "GEMMs", rows, shown, labels, columns)
    if not screen.full:
        return out
    result: dict[str, dict[int, float]] = {}
    for row, label in zip(rows, _labels(rows, ("series", "dtype"), " · "), strict=True):
        if row["series"] and row["flop_per_s"] is not None:
            result.setdefault(label, {})[row["m"]] = row["flop_per_s"]
    axes = ("Rate by M", "operations per second")
    return [
        *_drawn(screen, result, axes, lambda size: f"M {size:,.0f}", format_flop_per_s),
        *out,
    ]


def _shape(row: Row) -> str:
    if row["m"] is None:
        return NOTHING
    batch = f"{row['batch']} × " if row["batch"] != 1 else ""
    return f"{batch}{row['m']}×{row['n']}×{row['k']}"


def bench_launches(screen: Screen) -> list[Text]:
    """Return the time of each kind of launch; `full` changes nothing."""
    rows = screen.rows("bench_launches")
    timed = [row | {"timer": _CLOCKS.get(row["timer"], row["timer"])} for row in rows]
    columns = [*figures(rows, {"median_ns": "time of a call"}), _interval(rows)]
    labels = _labels(timed, ("op", "series", "timer"))
    return _points(screen, "Launches", rows, rows, labels, columns)


def _labels(
    rows: Rows, names: Sequence[str], between: str = " ", *, of: Rows | None = None
) -> list[str]:
    """Return the labels of points, with the run if there are several."""
    if len({row["run"] for row in (rows if of is None else of)}) > 1:
        names = ("run", *names)
    return [printable(between.join(str(row[name]) for name in names if row[name])) for row in rows]


def _interval(rows: Sequence[Row]) -> TextColumn:
    """Return the distances of the 95 % bounds from the median, % of the median."""
    cells = [
        "" if row["interval_pct"] is None else f"−{row['below_pct']:.1f} +{row['above_pct']:.1f}"
        for row in rows
    ]
    return TextColumn("", "95 % interval", cells, True, "%")


def _points(
    screen: Screen,
    title: str,
    rows: Rows,
    shown: Rows,
    labels: Sequence[str],
    columns: Sequence[TextColumn],
) -> list[Text]:
    """Return a line per point: label, figures, and reasons for missing figures."""
    machines = dict.fromkeys(
        printable(row["device_name"] or row["device"] or "an unknown device") for row in rows
    )
    heading = Text.assemble((title, "bold"), (f" on {', '.join(machines)}", "dim"))
    reasons = [printable(row["reason"] or "") for row in shown]
    return screen.block(heading, labels, columns, after=reasons, of=len(rows))


def _drawn(
    screen: Screen,
    result: Mapping[str, Mapping[int, float]],
    axes: tuple[str, str],
    size_text: Callable[[float], str],
    rate_text: Callable[[float], str],
) -> list[Text]:
    """Return a drawing of the curves with several points, and an empty line.

    Without such curves, return [].
    """
    curves = [
        RateCurve(name, sorted(points), [points[size] for size in sorted(points)])
        for name, points in result.items()
        if len(points) > 1
    ]
    if not curves:
        return []
    return [
        screen.heading(*axes),
        *rate_curve_lines(curves[:MAX_CURVES], screen.width, size_text, rate_text),
        *more(len(curves) - MAX_CURVES, "curve"),
        Text(),
    ]
