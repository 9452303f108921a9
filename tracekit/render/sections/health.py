"""How far the figures above can be trusted, in one line: the worst first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import cell_width, printable, shorten
from tracekit.render.sections._heading import heading
from tracekit.units import format_bytes, format_duration, format_pct

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 1000

_ORDER_OF = {"warn": 0, "note": 1, "ok": 2}
_MARK = " · "
_STYLES = {"warn": "yellow", "note": "", "ok": "green"}


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return one line that counts warnings and notes and names them, the worst first."""
    if not data.get("health"):
        return []
    if full:
        return [heading("Health"), *grid_lines(data["health"], None if wide else width, units=True)]
    rows = data["health"].to_dicts()
    worst = min((row["severity"] for row in rows), key=_rank_of)
    line = heading("Health")
    line.append("  ")
    line.append(worst, style=_STYLES.get(worst, ""))
    findings = _findings([row for row in rows if row["severity"] != "ok"])
    room = width - line.cell_len - 2
    line.append("  " + (_fitting(findings, room) if findings else f"{len(rows):,} checks passed"))
    return [line]


def _fitting(findings: list[str], room: int) -> str:
    """Return as many of the findings as there is room for, whole, and how many there are more."""
    for count in range(len(findings), 0, -1):
        left = len(findings) - count
        end = f"{_MARK}… {left:,} more (--full)" if left else ""
        text = _MARK.join(findings[:count])
        if cell_width(text) + len(end) <= room:
            return text + end
    return shorten(shorten(text, room - len(end)) + end, room)


def _rank_of(severity: str) -> int:
    return _ORDER_OF.get(severity, 1)


def _findings(rows: list[dict[str, Any]]) -> list[str]:
    """Return one text per metric; one that several ranks report is said once."""
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: _rank_of(row["severity"])):
        by_metric.setdefault(row["metric"], []).append(row)
    return [
        f"{printable(metric.replace('_', ' '))} {_value(same[0])}"
        + (f" (on {len(same):,} ranks)" if len(same) > 1 else "")
        for metric, same in by_metric.items()
    ]


def _value(row: Mapping[str, Any]) -> str:
    value, unit = row["value"], row["unit"]
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return printable(value)
    if unit in ("pct", "%"):
        return f"{format_pct(value)} %"
    if unit == "ns":
        return format_duration(value)
    if unit == "bytes":
        return format_bytes(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
