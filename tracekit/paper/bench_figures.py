"""Shows the paper's microbenchmarks, Figures 11 to 15, next to the user's measurements.

The figures are curves without numbers. So each curve is a row with the paper's statements about it,
followed by the measured points of the same curve. A point belongs to a curve if it has the same
GEMM (N, K, alignment, type), direction, or collective; `tracekit query` shows all other points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from tracekit.analysis.result import Column, Result

_Row = Mapping[str, Any]

_TENSOR_SCALE = 8


class BenchFigure(Struct, frozen=True):
    """Source of measured points: an analysis, the curve of each row, and displayed columns."""

    analysis: str
    curve: Callable[[_Row], str | None]
    figures: tuple[str, ...]


def _product_curve(row: _Row) -> str | None:
    """Match GEMMs by shape, regardless of the name and sizes of the series."""
    if row["op"] != "mm" or row["m"] is None or not row["series"]:
        return None
    if row["series"] == "table12" or "/" in row["series"]:
        return None
    name = f"N{row['n']}_K{row['k']}"
    return name if row["m"] % _TENSOR_SCALE == 0 else f"unaligned_{name}"


def _op(*names: str) -> Callable[[_Row], str | None]:
    return lambda row: row["op"] if row["op"] in names else None


_INTERVAL = ("median_ns", "low_ns", "high_ns", "interval_pct")
_MACHINE = ("device", "device_name", "timer", "reason")
_COLLECTIVE = (
    *("backend", "group_size", "dtype", "message_bytes", *_INTERVAL),
    *("algorithm_bytes_per_s", "bus_bytes_per_s", *_MACHINE),
)

BENCH_FIGURES: dict[str, BenchFigure] = {
    "figure11": BenchFigure(
        "bench_gemm",
        _product_curve,
        ("dtype", "m", "n", "k", *_INTERVAL, "flop_per_s", "peak_pct", *_MACHINE),
    ),
    "figure12": BenchFigure(
        "bench_memcpy",
        _op("h2d", "d2h"),
        ("memory", "message_bytes", *_INTERVAL, "bytes_per_s", *_MACHINE),
    ),
    "figure13": BenchFigure("bench_collectives", _op("all_gather"), _COLLECTIVE),
    "figure14": BenchFigure("bench_collectives", _op("reduce_scatter"), _COLLECTIVE),
    "figure15": BenchFigure(
        "bench_collectives", _op("all_gather", "reduce_scatter", "reduce"), _COLLECTIVE
    ),
}
"""Figures that show microbenchmarks, by name."""


def of_figure(figure: BenchFigure, points: Result) -> Result:
    names = points.column_names
    rows = [row for row in points.rows if figure.curve(dict(zip(names, row, strict=True)))]
    return Result(points.name, points.columns, rows)


def flat_result(name: str, curves: Mapping[str, Any], points: Result) -> Result:
    """Return the measured points of a figure as one flat table; `curves` are the paper's curves."""
    figure = BENCH_FIGURES[name]
    types = {column.name: column.type for column in points.columns}
    columns = [
        Column("curve", "VARCHAR"),
        Column("is_curve_of_paper", "BOOLEAN"),
        Column("run", "VARCHAR"),
        *(Column(column, types[column]) for column in figure.figures),
    ]
    rows = []
    for row in of_figure(figure, points).to_dicts():
        curve = figure.curve(row)
        values = (row[column] for column in figure.figures)
        rows.append((curve, curve in curves, row["run"], *values))
    return Result(name, tuple(columns), rows)


def remarks(name: str, curves: Mapping[str, Any], points: Result) -> list[str]:
    figure = BENCH_FIGURES[name]
    ours = of_figure(figure, points).to_dicts()
    result = list(dict.fromkeys(str(figure.curve(row)) for row in ours))
    texts = {
        "measured curves that the paper does not have": [
            one for one in result if one not in curves
        ],
        "curves of the paper without measured points": [one for one in curves if one not in result],
    }
    return [f"{text}: {', '.join(names)}" for text, names in texts.items() if names]


def machines(points: Result) -> list[str]:
    result: dict[str, None] = {}
    for row in points.to_dicts():
        parts = [row["device_name"] or row["device"], row.get("backend")]
        if row.get("group_size"):
            parts.append(f"{row['group_size']} ranks")
        result[" · ".join(str(part) for part in parts if part)] = None
    return list(result)
