"""The classes of kernels by the wall time that is theirs, over all devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._bars import share_bar
from tracekit.render._text import cell_width, fit, printable
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._window import pct_text, total_window_ns
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 40

MAX_CLASSES = 8
_MAX_BAR = 48
_MIN_BAR = 10
_MAX_LABEL = 24
_STYLES = {"compute": "green", "comm": "red", "memcpy": "yellow"}


def lines(data: Mapping[str, Result], width: int, *, full: bool) -> list[Text]:
    """Return one bar per class, the largest first; shares are of the window."""
    if not data.get("kernel_classes"):
        return []
    wall_ns: dict[tuple[str, str], int] = {}
    counts: dict[tuple[str, str], int] = {}
    for row in data["kernel_classes"].to_dicts():
        key = (row["class"], row["kind"])
        wall_ns[key] = wall_ns.get(key, 0) + row["wall_ns"]
        counts[key] = counts.get(key, 0) + row["kernel_count"]
    keys = sorted(wall_ns, key=lambda key: (-wall_ns[key], key))
    shown = keys if full else keys[:MAX_CLASSES]

    window_ns = total_window_ns(data)
    decimals = ms_decimals(wall_ns.values())
    figures = aligned(
        [
            [pct_text(wall_ns[key], window_ns) for key in shown],
            [f"{format_ms(wall_ns[key], decimals)} ms" for key in shown],
            [f"{counts[key]:,} ×" for key in shown],
        ]
    )
    labels = [printable(name) for name, _ in shown]
    label_width = min(max(map(cell_width, labels)), _MAX_LABEL)
    bar_width = min(max(width - label_width - len(figures[0]) - 6, _MIN_BAR), _MAX_BAR)
    out = [heading("Kernel classes", "wall time, share of the window", width)]
    for (_, kind), label, text, key in zip(shown, labels, figures, shown, strict=True):
        share = wall_ns[key] / window_ns if window_ns else 0.0
        bar = share_bar(share, bar_width, _STYLES.get(kind, ""))
        out.append(Text.assemble("  ", fit(label, label_width), "  ", bar, "  ", text))
    out.extend(more(len(keys) - len(shown), "class", "classes"))
    return out
