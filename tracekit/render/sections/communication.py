"""The collectives by class and group: how long, how much of it exposed, how fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import cell_width, fit, printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._window import pct_text, total_window_ns
from tracekit.units import format_bytes, format_bytes_per_s, format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 42

MAX_KINDS = 5
_MAX_LABEL = 32
_CPU_NOTE = "on a CPU, time counts both the call and the backend's span; bandwidth is of the span"


@dataclass
class _Calls:
    """The collectives of one class in groups of one name, over all devices."""

    count: int = 0
    sized_count: int = 0
    kernel_ns: int = 0
    comm_ns: int = 0
    wall_ns: int = 0
    bytes: int = 0
    sized_s: float = 0.0
    bus_bytes: float = 0.0
    is_bus_known: bool = True
    reasons: dict[str, None] = field(default_factory=dict)


def lines(data: Mapping[str, Result], width: int, *, full: bool) -> list[Text]:
    """Return one line per class and group, the longest first; shares are of the window.

    Bandwidths are of the collectives whose message size is known; bus bandwidth is a dash unless
    the size of every group is. On a CPU a last line tells what time and bandwidth are of.
    """
    if not data.get("communication"):
        return []
    if full:
        grid = grid_lines(data["communication"], width, units=True)
        return [heading("Communication"), *grid, *_footnote(data["communication"], width)]
    kinds = _by_kind(data["communication"])
    names = sorted(kinds, key=lambda name: (-kinds[name].kernel_ns, name))
    shown = names[:MAX_KINDS]
    calls = [kinds[name] for name in shown]

    window_ns = total_window_ns(data)
    decimals = ms_decimals(each.kernel_ns for each in kinds.values())
    figures = aligned(
        [
            [f"{each.count:,} ×" for each in calls],
            [f"{format_ms(each.kernel_ns, decimals)} ms" for each in calls],
            [pct_text(each.wall_ns, window_ns) for each in calls],
            [pct_text(each.comm_ns - each.wall_ns, each.comm_ns) for each in calls],
            [format_bytes(each.bytes) if each.sized_count else "–" for each in calls],
            [_rate(each.bytes, each) for each in calls],
            [_rate(each.bus_bytes, each) if each.is_bus_known else "–" for each in calls],
        ]
    )
    label_width = min(max(map(cell_width, shown)), _MAX_LABEL)
    note = "count, kernel time, exposed share of the window, hidden, bytes, bandwidth, bus"
    out = [heading("Communication", note, width)]
    for name, text, each in zip(shown, figures, calls, strict=True):
        line = Text(f"  {fit(name, label_width)}  {text}")
        room = width - cell_width(line.plain) - 2
        if each.reasons and room >= len("its call"):
            line.append("  " + shorten(" · ".join(each.reasons), room), style="dim")
        out.append(line)
    out.extend(more(len(names) - len(shown), "kind", "kinds"))
    out.extend(_footnote(data["communication"], width))
    return out


def _footnote(result: Result, width: int) -> list[Text]:
    if "cpu" not in result.column("device"):
        return []
    return [Text("  " + shorten(_CPU_NOTE, width - 2), style="dim")]


def _rate(amount: float, calls: _Calls) -> str:
    return format_bytes_per_s(amount / calls.sized_s) if calls.sized_s else "–"


def _by_kind(result: Result) -> dict[str, _Calls]:
    kinds: dict[str, _Calls] = {}
    for row in result.to_dicts():
        label = row["class"].removeprefix("comm_")
        if row["pg_name"] is not None:
            label += f" (group {row['pg_name']})"
        calls = kinds.setdefault(printable(label), _Calls())
        calls.count += row["call_count"]
        calls.sized_count += row["sized_count"]
        calls.kernel_ns += row["kernel_ns"]
        calls.comm_ns += row["comm_ns"]
        calls.wall_ns += row["wall_ns"]
        calls.bytes += row["message_bytes"] or 0
        if row["algorithm_bytes_per_s"]:
            # The time of the collectives whose size is known, from the two figures of the row.
            sized_s = row["message_bytes"] / row["algorithm_bytes_per_s"]
            calls.sized_s += sized_s
            calls.is_bus_known &= row["bus_bytes_per_s"] is not None
            calls.bus_bytes += (row["bus_bytes_per_s"] or 0) * sized_s
        if row["reason"]:
            calls.reasons[printable(row["reason"])] = None
    return kinds
