"""What each step of a serving engine worked on: tokens of prompts, and tokens that it made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.palette import PHASE
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import parts, quantity, told

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

NEEDS = ("serving_steps",)

PARTS = {"prefill_token_count": "prefill", "decode_token_count": "decode"}


def chart(data: Mapping[str, Result]) -> Chart | None:
    """Return the chart; None where steps do not tell their tokens."""
    rows = [row for row in data["serving_steps"].to_dicts() if row["step"] is not None]
    rows = [row for row in rows if any(row[column] for column in PARTS)]
    if not rows:
        return None
    spec = {
        "data": {"name": "serving_steps"},
        "height": 240,
        "transform": [
            {"filter": {"field": "step", "valid": True}},
            {"fold": [*PARTS], "as": ["part", "token_count"]},
            {"filter": {"field": "token_count", "gt": 0}},
        ],
        "mark": {"type": "point", "filled": True, "size": 40, "opacity": 0.8},
        "encoding": {
            "x": quantity(
                "start_ns",
                [row["start_ns"] for row in rows],
                "start of the step",
                scale={"zero": False},
            ),
            "y": quantity("token_count", [], "tokens in the step", scale={"type": "log"}),
            "color": parts("part", {column: PHASE[phase] for column, phase in PARTS.items()}),
            "tooltip": told(
                "step", "phase", "part", "token_count", "request_count", "dur_ns", "idle_pct"
            ),
        },
    }
    title = "The batch of each step: tokens of prompts, tokens that are made"
    return Chart("serving_steps", title, spec, {"serving_steps": data["serving_steps"]})
