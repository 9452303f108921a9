"""Why the devices had nothing to do: the causes of idle time, over all devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._bars import share_bar
from tracekit.render._text import fit, printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._share import pct_text
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 45

MAX_CAUSES = 5
_MAX_BAR = 16
_MIN_BAR = 10
_MIN_PLACE = 12
_HOST = "red"
_STYLES = {
    "host_bound": _HOST,
    "host_sync": _HOST,
    "data_loading": _HOST,
    "allocator": _HOST,
    "launch_latency": "yellow",
    "graph_gap": "yellow",
    "dependency": "cyan",
    "comm_wait": "magenta",
}


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return one bar per cause, the largest first, with its op and module; shares of the window."""
    del wide
    if not data.get("idle_cause_totals"):
        return []
    rows = data["idle_cause_totals"].to_dicts()
    shown = rows if full else rows[:MAX_CAUSES]
    decimals = ms_decimals(row["idle_ns"] for row in rows)
    figures = aligned(
        [
            [pct_text(row["idle_pct"]) for row in shown],
            [f"{format_ms(row['idle_ns'], decimals)} ms" for row in shown],
            [f"{row['gap_count']:,} ×" for row in shown],
        ]
    )
    label_width = max(len(row["cause"]) for row in shown)
    bar_width = min(max(width - label_width - len(figures[0]) - 6, _MIN_BAR), _MAX_BAR)
    room = width - label_width - bar_width - len(figures[0]) - 8
    out = [heading("Idle causes", "share of the window, gaps, where most of it is", width)]
    for row, text in zip(shown, figures, strict=True):
        cause, place = row["cause"], _place(row["top_op"], row["top_module"])
        bar = share_bar(row["idle_pct"], bar_width, _STYLES.get(cause, ""))
        line = Text.assemble("  ", fit(printable(cause), label_width), "  ", bar, "  ", text)
        if place and room >= _MIN_PLACE:
            line.append(f"  {shorten(place, room)}", style="dim")
        out.append(line)
    out.extend(more(len(rows) - len(shown), "cause", "causes"))
    return out


def _place(op: str | None, module: str | None) -> str:
    """Return the op and the module's own name: of a path, its end says most."""
    name = module.rsplit("/", 1)[-1] if module else None
    return " in ".join(printable(part) for part in (op, name) if part)
