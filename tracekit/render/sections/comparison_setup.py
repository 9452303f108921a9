"""What is not alike in the set-up of two sides, before their figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import cell_width, fit, printable, shorten
from tracekit.render.sections._heading import heading, more

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 1

_MAX_NOTES = 4


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return one line for each thing that differs: those that matter all, of the rest some."""
    if not data.get("comparison_setup"):
        return []
    title = heading("Not alike", "what differs between the two besides their times", width)
    if full:
        return [title, *grid_lines(data["comparison_setup"], None if wide else width, units=True)]
    rows = data["comparison_setup"].to_dicts()
    telling = [row for row in rows if row["weight"] == "matters"]
    notes = [row for row in rows if row["weight"] != "matters"]
    shown = [*telling, *notes[:_MAX_NOTES]]
    labels = [printable(f"{row['subject']} {row['name']}") for row in shown]
    label_width = min(max(map(cell_width, labels)), max(width // 2, 20))
    out = [title]
    for row, label in zip(shown, labels, strict=True):
        texts = [printable(row[side] if row[side] is not None else "not said") for side in _SIDES]
        text = shorten(" → ".join(texts), width - label_width - 4)
        style = "yellow" if row["weight"] == "matters" else "dim"
        label = shorten(label, label_width)
        out.append(Text.assemble("  ", fit(label, label_width), "  ", (text, style)))
    return out + more(len(notes) - _MAX_NOTES, "difference", "differences")


_SIDES = ("base", "new")
