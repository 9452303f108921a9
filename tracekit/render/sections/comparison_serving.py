"""Serving on both sides: latency, throughput, and steps by what is in their batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 4

_STYLES = {"slower": "red", "faster": "green"}
_TABLES = ("comparison_latency", "comparison_throughput", "comparison_batches")


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return requests by metric, rates, and the steps of each phase with why they differ."""
    if not data.get("comparison_batches"):
        found = [name for name in _TABLES if data.get(name)]
    else:
        found = [*_TABLES]
    if not found:
        return []
    if full:
        out: list[Text] = []
        for name in found:
            title = name.removeprefix("comparison_").capitalize()
            out += [heading(title), *grid_lines(data[name], None if wide else width, units=True)]
        return out
    out = _requests(
        data["comparison_latency"].to_dicts(), data["comparison_throughput"].to_dicts(), width
    )
    steps = _steps(data["comparison_batches"].to_dicts(), width)
    return [*out, *([Text()] if out and steps else []), *steps]


def _requests(
    latency: Sequence[Mapping[str, Any]], rates: Sequence[Mapping[str, Any]], width: int
) -> list[Text]:
    if not latency and not rates:
        return []
    rows: list[Mapping[str, Any]] = [*latency, *rates]
    decimals = ms_decimals(row[name] for row in latency for name in ("base_ns", "new_ns"))

    def amount(row: Mapping[str, Any], name: str) -> str:
        if "base_ns" in row:
            return format_ms(row[f"{name}_ns"], decimals)
        return f"{row[f'{name}_per_s']:,.1f}"

    columns = [
        [
            f"{row['metric']} {row['statistic']}"
            if "metric" in row
            else f"{row['rate'].replace('_', ' ')}/s"
            for row in rows
        ],
        [f"{amount(row, 'base')} →" for row in rows],
        [f"{amount(row, 'new')}{' ms' if 'base_ns' in row else '   '}" for row in rows],
        [
            "–" if row["difference_pct"] is None else f"{row['difference_pct']:+,.1f} %"
            for row in rows
        ],
        [_interval(row) for row in rows],
        [_verdict(row) for row in rows],
    ]
    counts = f"{rows[0]['base_count']:,} and {rows[0]['new_count']:,} requests"
    out = [heading("Requests", f"{counts}; difference, its 99.5 % interval, verdict", width)]
    for row, figures in zip(rows, aligned(columns), strict=True):
        out.append(Text(shorten(f"  {figures}", width), style=_STYLES.get(row["verdict"], "")))
    return out


def _interval(row: Mapping[str, Any]) -> str:
    if row["low_pct"] is None:
        return "–"
    return f"{row['low_pct']:+,.1f} … {row['high_pct']:+,.1f} %"


def _verdict(row: Mapping[str, Any]) -> str:
    if row["verdict"] == "inconclusive" and row["more_count"] is not None:
        return f"needs {row['more_count']:,} more"
    return str(row["verdict"])


def _steps(rows: Sequence[Mapping[str, Any]], width: int) -> list[Text]:
    if not rows:
        return []
    names = ("base_ns", "new_ns", "by_batch_ns", "by_own_batch_ns", "by_cost_ns")
    decimals = ms_decimals(row[name] for row in rows for name in names if row[name] is not None)
    columns = [
        ["steps", *(row["phase"] for row in rows)],
        ["count", *(f"{row['base_step_count']:,} → {row['new_step_count']:,}" for row in rows)],
        [
            "mean ms",
            *(
                f"{format_ms(row['base_ns'], decimals)} → {format_ms(row['new_ns'], decimals)}"
                for row in rows
            ),
        ],
        ["other batches", *(_signed(row["by_batch_ns"], decimals) for row in rows)],
        ["of one side", *(_signed(row["by_own_batch_ns"], decimals) for row in rows)],
        ["same batches", *(_signed(row["by_cost_ns"], decimals) for row in rows)],
        ["", *(row["verdict"] or "" for row in rows)],
    ]
    note = "mean, and by what it differs; adds up"
    out = [heading("Engine's steps", note, width)]
    styles = ["dim", *(_STYLES.get(row["verdict"] or "", "") for row in rows)]
    for style, figures in zip(styles, aligned(columns), strict=True):
        out.append(Text(shorten(f"  {figures}", width), style=style))
    return out


def _signed(value_ns: int | None, decimals: int) -> str:
    if value_ns is None:
        return "–"
    sign = "+" if value_ns > 0 else "-" if value_ns < 0 else "±"
    return sign + format_ms(abs(value_ns), decimals)
