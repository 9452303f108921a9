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
from tracekit.render.sections._window import pct_text, total_window_ns
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 30

MAX_ROWS = 10
_INDENT = "  "


@dataclass(slots=True)
class _Node:
    path: str
    total_ns: int = 0
    self_ns: int = 0
    kernel_count: int = 0
    children: dict[str, _Node] = field(default_factory=dict)


def lines(data: Mapping[str, Result], width: int, *, full: bool) -> list[Text]:
    """Return the largest modules under their parents; modules of all layers are one line."""
    if not data.get("modules"):
        return []
    if full:
        return [heading("Modules"), *grid_lines(data["modules"], width, units=True)]
    root = _tree(data["modules"].to_dicts())
    every = _flat(root)
    largest = {
        id(node)
        for _, _, node in sorted(every, key=lambda item: (-item[2].total_ns, item[1]))[:MAX_ROWS]
    }
    shown = [item for item in every if id(item[2]) in largest]

    window_ns = total_window_ns(data)
    decimals = ms_decimals(node.total_ns for _, _, node in shown)
    figures = aligned(
        [
            [pct_text(node.total_ns, window_ns) for _, _, node in shown],
            [f"{format_ms(node.total_ns, decimals)} ms" for _, _, node in shown],
            [
                f"{pct_text(node.self_ns, window_ns)} own" if node.self_ns else ""
                for _, _, node in shown
            ],
        ]
    )
    out = [heading("Modules", "wall time with what is inside, share of the window")]
    for (label, depth, _), text in zip(shown, figures, strict=True):
        room = max(width - len(text) - 4, 1)
        out.append(Text(f"  {text}  {shorten(_INDENT * depth + printable(label), room)}"))
    out.extend(more(len(every) - len(shown), "module", "modules"))
    return out


def _tree(rows: Sequence[Mapping[str, Any]]) -> _Node:
    """Return the modules summed over phases, layers and devices.

    Rows of one phase are in the order of the tree, so the parent of a row is the last one that is
    less deep.
    """
    root = _Node("")
    around = [root]
    for row in rows:
        del around[row["depth"] + 1 :]
        parent = around[-1]
        path = row["rollup_path"]
        node = parent.children.setdefault(path, _Node(path))
        node.total_ns += row["total_wall_ns"]
        node.self_ns += row["self_wall_ns"]
        node.kernel_count += row["kernel_count"]
        around.append(node)
    return root


def _flat(root: _Node) -> list[tuple[str, int, _Node]]:
    """Return label, depth and node, the largest first; a chain that adds nothing is one line."""
    out = []
    # A stack of our own: modules may be nested deeper than Python calls may be.
    waiting = [(root, "", -1)]
    while waiting:
        node, above, depth = waiting.pop()
        if node is not root:
            while len(node.children) == 1 and not node.self_ns:
                node = next(iter(node.children.values()))
            label = node.path
            if above and label.startswith(above) and label[len(above) :][:1] in ("/", "."):
                label = label[len(above) + 1 :]
            out.append((label, depth, node))
        children = sorted(node.children.values(), key=lambda child: (-child.total_ns, child.path))
        waiting.extend((child, node.path, depth + 1) for child in reversed(children))
    return out
