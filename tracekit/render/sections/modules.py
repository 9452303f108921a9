"""The modules that held the device longest, as a tree, over all phases, layers and devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render._text import printable, shorten
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading, more
from tracekit.render.sections._share import pct_text
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 30

MAX_ROWS = 10
_INDENT = "  "


@dataclass(slots=True)
class _Node:
    row: Mapping[str, Any]
    children: list[_Node] = field(default_factory=list)


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return the largest modules under their parents; modules of all layers are one line."""
    if not data.get("module_totals"):
        return []
    if full:
        return [
            heading("Modules"),
            *grid_lines(data["modules"], None if wide else width, units=True),
        ]
    every = _flat(_tree(data["module_totals"].to_dicts()))
    largest = {
        id(row)
        for _, _, row in sorted(every, key=lambda item: (-item[2]["total_wall_ns"], item[1]))[
            :MAX_ROWS
        ]
    }
    shown = [item for item in every if id(item[2]) in largest]

    decimals = ms_decimals(row["total_wall_ns"] for _, _, row in shown)
    figures = aligned(
        [
            [pct_text(row["wall_pct"]) for _, _, row in shown],
            [f"{format_ms(row['total_wall_ns'], decimals)} ms" for _, _, row in shown],
            [
                f"{pct_text(row['self_pct'])} own" if row["self_wall_ns"] else ""
                for _, _, row in shown
            ],
        ]
    )
    out = [heading("Modules", "wall time with what is inside, share of the window")]
    for (label, depth, _), text in zip(shown, figures, strict=True):
        room = max(width - len(text) - 4, 1)
        out.append(Text(f"  {text}  {shorten(_INDENT * depth + printable(label), room)}"))
    out.extend(more(len(every) - len(shown), "module", "modules"))
    return out


def _tree(rows: Sequence[Mapping[str, Any]]) -> list[_Node]:
    """Return the modules at the top, each with those inside of it; parents come before children."""
    top: list[_Node] = []
    known: dict[tuple[int, str], _Node] = {}
    for row in rows:
        node = known.setdefault((row["depth"], row["module_path"]), _Node(row))
        around = top if row["depth"] == 0 else known[row["depth"] - 1, row["parent_path"]].children
        around.append(node)
    return top


def _flat(top: list[_Node]) -> list[tuple[str, int, Mapping[str, Any]]]:
    """Return label, depth and row, the largest first; a chain that adds nothing is one line."""
    out = []
    # A stack of our own: modules may be nested deeper than Python calls may be.
    waiting = [(node, "", 0) for node in _smallest_first(top)]
    while waiting:
        node, above, depth = waiting.pop()
        while len(node.children) == 1 and not node.row["self_wall_ns"]:
            (node,) = node.children
        path = node.row["module_path"]
        label = path
        if above and label.startswith(above) and label[len(above) :][:1] in ("/", "."):
            label = label[len(above) + 1 :]
        out.append((label, depth, node.row))
        waiting.extend((child, path, depth + 1) for child in _smallest_first(node.children))
    return out


def _smallest_first(nodes: list[_Node]) -> list[_Node]:
    """Return modules so that a stack gives the largest first."""
    by_size = sorted(nodes, key=lambda node: (-node.row["total_wall_ns"], node.row["module_path"]))
    return by_size[::-1]
