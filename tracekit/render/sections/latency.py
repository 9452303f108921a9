"""How long requests took to be answered, in a table of percentiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.render._grid import grid_lines
from tracekit.render.sections._figures import aligned
from tracekit.render.sections._heading import heading
from tracekit.units import format_ms, ms_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 15

_MEANINGS = {
    "e2e": "to the end of the answer",
    "ttft": "to the first token",
    "tpot": "per token behind the first",
    "itl": "between tokens",
    "client_wait": "held back by the client",
}
_SHOWN = ("mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns")
# On a narrow screen: a number is left out, never cut.
_FEWER = (("p50_ns", "p90_ns", "p99_ns"), ("p50_ns", "p99_ns"), ("p50_ns",))


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return one line per metric; a metric without a value, or always zero, is not shown."""
    if not data.get("latency"):
        return []
    if full:
        return [
            heading("Latency"),
            *grid_lines(data["latency"], None if wide else width, units=True),
        ]
    rows = [row for row in data["latency"].to_dicts() if row["max_ns"]]
    if not rows:
        return []
    figures = []
    for fewer in (_SHOWN, *_FEWER):
        figures = _figures(rows, fewer)
        if len(figures[0]) + 2 <= width:
            break
    note = "percentiles are nearest-rank, of the requests that succeeded"
    if any(row["outcome"] == "incomplete" for row in rows):
        note += "; of an incomplete load"
    out = [heading("Latency", note, width), Text("  " + figures[0], style="dim")]
    for row, text in zip(rows, figures[1:], strict=True):
        line = Text("  " + text)
        meaning = _MEANINGS.get(row["metric"], "")
        if line.cell_len + 2 + len(meaning) <= width:
            line.append("  " + meaning, style="dim")
        out.append(line)
    return out


def _figures(rows: Sequence[Mapping[str, Any]], shown: Sequence[str]) -> list[str]:
    """Return the line of titles and one line per metric."""
    decimals = ms_decimals(row[column] for row in rows for column in shown)
    names = ["", *(row["metric"] for row in rows)]
    longest = max(map(len, names))
    columns = [[name.ljust(longest) for name in names]]
    for column in shown:
        title = column.removesuffix("_ns")
        columns.append([title, *(format_ms(row[column], decimals) for row in rows)])
    columns[-1][1:] = [f"{text} ms" for text in columns[-1][1:]]
    return aligned(columns)
