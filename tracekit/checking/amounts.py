"""Amounts that rules are about, as text for people."""

from __future__ import annotations

from tracekit.units import (
    Unit,
    format_bytes,
    format_bytes_per_s,
    format_duration,
    format_flop_per_s,
)


def amount_text(amount: float | None, unit: Unit | None) -> str | None:
    """Return an amount with the unit that suits it, or None for none.

    Args:
        amount: in the base unit.
        unit: what it is, as :func:`tracekit.units.unit_of` says it.
    """
    if amount is None:
        return None
    if unit == "ns":
        return format_duration(round(amount))
    if unit == "bytes":
        return format_bytes(round(amount))
    if unit == "bytes_per_s":
        return format_bytes_per_s(amount)
    if unit == "flop_per_s":
        return format_flop_per_s(amount)
    if unit == "pct":
        return f"{amount:,.2f} %"
    return f"{amount:,.6g}"
