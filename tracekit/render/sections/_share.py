"""A share as text."""

from __future__ import annotations

from tracekit.units import format_pct


def pct_text(pct: float | None) -> str:
    """Return a share with its sign, or a dash where there is nothing to be a share of."""
    return "–" if pct is None else f"{format_pct(pct)} %"
