"""Why the devices had nothing to do: the causes of idle time, over all devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._bars import share_bar
from tracekit.render._text import fit, printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._window import pct_text, total_window_ns
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


@dataclass
class _Idle:
    """The idle time of one cause, and where the device with the most of it says it is from."""

    idle_ns: int = 0
    gap_count: int = 0
    top_ns: int = 0
    place: str = ""


def lines(data: Mapping[str, Result], width: int, *, full: bool) -> list[Text]:
    """Return one bar per cause, the largest first, with its op and module; shares of the window."""
    if not data.get("idle_causes"):
        return []
    causes = _by_cause(data["idle_causes"])
    names = sorted(causes, key=lambda name: (-causes[name].idle_ns, name))
    shown = names if full else names[:MAX_CAUSES]

    window_ns = total_window_ns(data)
    decimals = ms_decimals(idle.idle_ns for idle in causes.values())
    figures = aligned(
        [
            [pct_text(causes[name].idle_ns, window_ns) for name in shown],
            [f"{format_ms(causes[name].idle_ns, decimals)} ms" for name in shown],
            [f"{causes[name].gap_count:,} ×" for name in shown],
        ]
    )
    label_width = max(map(len, shown))
    bar_width = min(max(width - label_width - len(figures[0]) - 6, _MIN_BAR), _MAX_BAR)
    room = width - label_width - bar_width - len(figures[0]) - 8
    out = [heading("Idle causes", "share of the window, gaps, where most of it is", width)]
    for name, text in zip(shown, figures, strict=True):
        idle = causes[name]
        share = idle.idle_ns / window_ns if window_ns else 0.0
        bar = share_bar(share, bar_width, _STYLES.get(name, ""))
        line = Text.assemble("  ", fit(printable(name), label_width), "  ", bar, "  ", text)
        if idle.place and room >= _MIN_PLACE:
            line.append(f"  {shorten(idle.place, room)}", style="dim")
        out.append(line)
    out.extend(more(len(names) - len(shown), "cause", "causes"))
    return out


def _by_cause(result: Result) -> dict[str, _Idle]:
    causes: dict[str, _Idle] = {}
    for row in result.to_dicts():
        idle = causes.setdefault(row["cause"], _Idle())
        idle.idle_ns += row["idle_ns"]
        idle.gap_count += row["gap_count"]
        if row["idle_ns"] > idle.top_ns:
            idle.top_ns = row["idle_ns"]
            idle.place = _place(row["top_op"], row["top_module"])
    return causes


def _place(op: str | None, module: str | None) -> str:
    """Return the op and the module's own name: of a path, its end says most."""
    name = module.rsplit("/", 1)[-1] if module else None
    return " in ".join(printable(part) for part in (op, name) if part)
