"""The life of single requests: queued, the steps that read the prompt, the steps that decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import GREY, INK, OLIVE, PHASE, Colour
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import bar_step, colours, names, quantity, request_of, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("request_life",)

PARTS: dict[str, Colour] = {
    "queued": OLIVE,
    "waiting": OLIVE,
    "prefill": PHASE["prefill"],
    "decode": PHASE["decode"],
    "between steps": GREY,
    "answering": GREY,
    "not traced": INK,
}
"""What a request's time consists of; of waiting and answering it is not known of what."""


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None without requests."""
    rows = data["request_life"].to_dicts()
    if not rows:
        return None
    label, name_of = request_of(rows)
    order = list(dict.fromkeys(map(name_of, rows)))
    found = {row["part"] for row in rows}
    ends = [row["end_ns"] for row in rows]
    spec = {
        "data": {"name": "request_life"},
        "height": bar_step(len(order)),
        "transform": [label],
        "mark": {"type": "bar", "height": {"band": 0.8}},
        "encoding": {
            "y": names("which", order),
            "x": quantity(
                "start_ns",
                ends,
                "time since the start of the load",
                scale={"zero": False, "nice": False},
            ),
            "x2": {"field": "end_ns"},
            "color": colours("part", {part: of for part, of in PARTS.items() if part in found}),
            "tooltip": told(
                *("which", "part", "step", "dur_ns", "request_count", "prefill_token_count"),
                *("decode_token_count", "e2e_ns", "outcome"),
            ),
        },
        "usermeta": {"zoom": "x"},
    }
    title = "The life of the slowest requests: queued, and step by step"
    return Chart("request_life", title, spec, {"request_life": data["request_life"]})
