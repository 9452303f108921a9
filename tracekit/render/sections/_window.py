"""The sum of all devices' windows: what a share of a whole run is a share of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracekit.units import format_pct

if TYPE_CHECKING:
    from tracekit.analysis.result import Result


def total_window_ns(data: Mapping[str, Result]) -> int:
    """Return the sum of the windows in the timeline, ns; 0 without a timeline."""
    return sum(data["timeline"].column("window_ns")) if "timeline" in data else 0


def pct_text(amount_ns: int, of_ns: int) -> str:
    """Return a share as text with its sign, or a dash where there is nothing to be a share of."""
    return f"{format_pct(100 * amount_ns / of_ns)} %" if of_ns else "–"
