"""The classes of kernels by the wall time that is theirs, over all devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.palette import KIND
from tracekit.render._bars import share_bar
from tracekit.render._text import cell_width, fit, printable
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._share import pct_text
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 40

MAX_CLASSES = 8
_MAX_BAR = 48
_MIN_BAR = 10
_MAX_LABEL = 24


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return one bar per class, the largest first; shares are of the window."""
    del wide
    if not data.get("kernel_class_totals"):
        return []
    rows = data["kernel_class_totals"].to_dicts()
    shown = rows if full else rows[:MAX_CLASSES]
    decimals = ms_decimals(row["wall_ns"] for row in rows)
    figures = aligned(
        [
            [pct_text(row["wall_pct"]) for row in shown],
            [f"{format_ms(row['wall_ns'], decimals)} ms" for row in shown],
            [f"{row['kernel_count']:,} ×" for row in shown],
        ]
    )
    labels = [printable(row["class"]) for row in shown]
    label_width = min(max(map(cell_width, labels)), _MAX_LABEL)
    bar_width = min(max(width - label_width - len(figures[0]) - 6, _MIN_BAR), _MAX_BAR)
    out = [heading("Kernel classes", "wall time, share of the window", width)]
    for row, label, text in zip(shown, labels, figures, strict=True):
        bar = share_bar(row["wall_pct"], bar_width, KIND[row["kind"]].terminal)
        out.append(Text.assemble("  ", fit(label, label_width), "  ", bar, "  ", text))
    out.extend(more(len(rows) - len(shown), "class", "classes"))
    return out
