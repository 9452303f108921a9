"""The distribution of request latencies, drawn: what share was answered within which time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._curve import Curve, curve_lines
from tracekit.render._curve_grid import most_curves
from tracekit.render.sections._heading import heading, more

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

ORDER = 16

_TITLES = {
    "e2e": "share of the requests that were answered within",
    "ttft": "share of the requests whose first token came within",
    "tpot": "share of the requests whose tokens came within, each",
    "itl": "share of the tokens that followed the one before within",
    "client_wait": "share of the requests that the client held back no longer than",
}
_MAIN = "e2e"


def lines(data: Mapping[str, Result], width: int, *, full: bool, wide: bool = False) -> list[Text]:
    """Return a drawing of the end-to-end latency, or of every metric, all runs in one."""
    del wide
    if not data.get("latency_cdf"):
        return []
    curves: dict[str, dict[tuple[str, str], Curve]] = {}
    for row in data["latency_cdf"].to_dicts():
        run = (row["engine"] or "", row["run"] or "")
        of_metric = curves.setdefault(row["metric"], {})
        if run not in of_metric:
            of_metric[run] = Curve(" · ".join(filter(None, run)))
        of_metric[run].values_ns.append(row["value_ns"])
        of_metric[run].pcts.append(row["cumulative_pct"])
    shown = [metric for metric in curves if full or metric == _MAIN]
    # Where the client never waited there is nothing to see.
    shown = [m for m in shown if any(curve.values_ns[-1] > 0 for curve in curves[m].values())]
    out: list[Text] = []
    for metric in shown:
        if out:
            out.append(Text())
        drawn = list(curves[metric].values())[: most_curves()]
        out.append(heading(f"Latency {metric}", _TITLES.get(metric, ""), width))
        out.extend(curve_lines(drawn, width))
        out.extend(more(len(curves[metric]) - len(drawn), "run", "runs"))
    return out
