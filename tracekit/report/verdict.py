"""The verdict in sentences: every figure in them is one of analysis verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracekit.render._text import printable
from tracekit.units import format_duration, format_pct

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

_LOSSES = {
    "exposed_comm": "exposed communication",
    "exposed_memcpy": "copies that nothing hides",
}


_MAX_REASONS = 3


def sentences(verdict: Result | None, unrecorded: Result | None = None) -> list[str]:
    """Return what is to be said first: the largest part, the largest loss, how far to trust it."""
    if verdict is None:
        return []
    if not verdict.rows:
        why = dict.fromkeys(unrecorded.column("reason") if unrecorded else ())
        return [
            "No work of a device is recorded here, so there is no time to divide.",
            *(f"{_begun(printable(reason))}." for reason in [*why][:_MAX_REASONS]),
        ]
    told = {row["topic"]: row for row in verdict.to_dicts()}
    found = []
    if part := told.get("largest_part"):
        found.append(
            f"Largest component: {printable(part['subject'])}, "
            f"{_amount(part)}, in {part['count']:,} of {part['of_count']:,} device events."
        )
    if loss := told.get("largest_loss"):
        found.append(f"Largest loss: {_loss(loss)}, {_amount(loss)}.")
    elif part:
        found.append("Nothing is lost: the devices computed all the time.")
    if trust := told.get("trust"):
        found.append(_trust(trust))
    return found


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:]


def _amount(row: Mapping[str, Any]) -> str:
    amount, share = format_duration(row["amount_ns"]), format_pct(row["share_pct"])
    return f"{amount}, {share} % of the devices' windows"


def _loss(row: Mapping[str, Any]) -> str:
    if row["subject"] in _LOSSES:
        return _LOSSES[row["subject"]]
    gaps = f"{row['count']:,} {'gap' if row['count'] == 1 else 'gaps'}"
    op = f", most of it from {printable(row['top_op'])}" if row["top_op"] else ""
    cause = "without a known cause" if row["subject"] == "unknown" else f"by {row['subject']}"
    return f"idle time {printable(cause)} ({gaps}{op})"


def _trust(row: Mapping[str, Any]) -> str:
    if not row["count"]:
        return f"{row['of_count']:,} of {row['of_count']:,} checks passed."
    which = f"{row['count']:,} of {row['of_count']:,} checks"
    verb = "warns" if row["count"] == 1 else "warn"
    first = "" if row["count"] == 1 else "among them "
    return (
        f"Caution: {which} {verb}, {first}{printable(row['subject'])} "
        f"({printable(row['meaning'])})."
    )
