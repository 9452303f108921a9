"""Rows of measured points: text to the left, figures to the right, what is missing behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from tracekit.render._text import cell_width, fit, printable, shorten
from tracekit.render.sections._figures import aligned

NONE = "–"


def point_lines(
    labels: Sequence[str], figures: Sequence[Sequence[str]], notes: Sequence[str], width: int
) -> list[Text]:
    """Return a line for each point.

    Args:
        labels: what each point is of.
        figures: a column of texts for each figure.
        notes: what is to be said of each, or nothing.
        width: the most cells that a line may take.
    """
    shown = [printable(label) for label in labels]
    label_width = max(map(cell_width, shown), default=0)
    out = []
    for label, text, note in zip(shown, aligned(figures), notes, strict=True):
        line = Text(f"  {fit(label, label_width)}  {text}")
        if note:
            line.append(shorten("  " + printable(note), width - line.cell_len), style="dim")
        out.append(line)
    return out


def interval_text(row: Mapping[str, Any]) -> str:
    """Return the width of the median's interval to either side of it, in percent of the median."""
    if row["interval_pct"] is None:
        return ""
    return f"−{row['below_pct']:.1f} +{row['above_pct']:.1f} %"


def machine(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what the points were measured on."""
    names = dict.fromkeys(
        printable(row["device_name"] or row["device"] or "an unknown device") for row in rows
    )
    return ", ".join(names)


def runs_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the runs, in their order."""
    return list(dict.fromkeys(row["run"] for row in rows))
