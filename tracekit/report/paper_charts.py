"""Pictures of the paper's numbers, in the form of ours: tokens a second, and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.palette import SLATE
from tracekit.plot import Chart
from tracekit.plot._encoding import bar_step, joined, names, quantity, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracekit.analysis.result import Result

_PARTS = (
    ("tokens_per_s", "tokens of all ranks", "tokens a second"),
    ("memory_gb", "peak memory of a GPU as printed, GB", "peak memory"),
)


def paper_charts(published: Result, name: str, source: str) -> Iterator[Chart]:
    """Return the pictures of a published table of methods on one platform.

    Args:
        published: its rows of the platform.
        name: what its rows are called in the page.
        source: which table that is, and of which platform.
    """
    label, name_of = joined("model", "method")
    for column, axis, title in _PARTS:
        rows = [row for row in published.to_dicts() if row[column] is not None]
        if not rows:
            continue
        spec = {
            "data": {"name": name},
            "height": bar_step(len(rows)),
            "transform": [{"filter": {"field": column, "valid": True}}, label],
            "mark": {"type": "bar"},
            "encoding": {
                "y": names("which", [name_of(row) for row in rows]),
                "x": quantity(column, [row[column] for row in rows], axis),
                "color": {"value": SLATE.light},
                "tooltip": told("which", "platform", "tokens_per_s", "memory_gb"),
            },
        }
        full = f"The paper's {source}: {title}"
        yield Chart(f"{name}_{column}", full, spec, {name: published})
