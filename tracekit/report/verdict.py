"""Formats the verdict as sentences. All figures come from analysis verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.analysis.result import Result
from tracekit.palette import LABELS
from tracekit.render._text import printable
from tracekit.render.sections.device_time import CAUSES
from tracekit.render.sections.trace import health_value
from tracekit.units import format_duration, format_pct, format_short

_LOSSES = {"exposed_comm": LABELS["exposed_comm"], "exposed_memcpy": "exposed copies"}

_MAX_REASONS = 3


def sentences(
    verdict: Result | None,
    unrecorded: Result | None = None,
    step: Mapping[str, Any] | None = None,
    classes: Result | None = None,
) -> list[str]:
    """Return the late rank, the largest busy part, and the largest loss, or why there are none.

    Args:
        verdict: analysis verdict.
        unrecorded: analysis unrecorded.
        step: figures of `step_of`. If they include an unprofiled step, sentences refer to it.
        classes: analysis kernel_class_totals.
    """
    if verdict is None:
        return []
    if not verdict.rows:
        why = dict.fromkeys(unrecorded.column("reason") if unrecorded else ())
        return [
            "No breakdown: no device work was recorded.",
            *(f"{capitalized(printable(reason))}." for reason in [*why][:_MAX_REASONS]),
        ]
    by_topic = {row["topic"]: row for row in verdict.to_dicts()}
    results = []
    if late := by_topic.get("late_rank"):
        results.append(_late(late, by_topic.get("late_by"), by_topic.get("others_wait")))
    if part := by_topic.get("largest_part"):
        results.append(
            f"Biggest cost: {printable(part['subject'])} kernels, "
            f"{_work_of_run(part, step, classes) or _amount(part)}, "
            f"in {part['count']:,} of {part['of_count']:,} device events."
        )
    if loss := by_topic.get("largest_loss"):
        results.append(f"Biggest loss: {_loss(loss)}, {_of_run(loss, step) or _amount(loss)}.")
    elif part:
        results.append("No idle or exposed time.")
    if not results and (trust := by_topic.get("trust")):
        which = f"{printable(trust['subject'])} {health_value(trust)}"
        results = [f"No verdict: {which} ({printable(trust['meaning'])})."]
    return results


def capitalized(text: str) -> str:
    """Capitalize the first letter of a string."""
    return text[:1].upper() + text[1:]


def _amount(row: Mapping[str, Any]) -> str:
    amount, share = format_duration(row["amount_ns"]), format_pct(row["share_pct"])
    return f"{amount}, {share} % of the recording"


def _work_of_run(
    part: Mapping[str, Any], step: Mapping[str, Any] | None, classes: Result | None
) -> str:
    """Return the time of a kernel class in an unprofiled step; "" if it is unknown."""
    if step is None or step["step_ns"] is None or step["idle_pct"] is None or classes is None:
        return ""
    times = [row["step_wall_ns"] for row in classes.to_dicts() if row["class"] == part["subject"]]
    if not times or None in times:
        return ""
    wall_ns, step_ns = sum(times), step["step_ns"]
    share = f"{format_pct(100 * wall_ns / step_ns)} %"
    return f"{format_short(wall_ns)} of an unprofiled step of {format_short(step_ns)}, {share}"


def _of_run(loss: Mapping[str, Any], step: Mapping[str, Any] | None) -> str:
    """Return the idle time of an unprofiled step; "" if it is unknown or not the largest loss."""
    if loss["subject"] in _LOSSES or step is None or step["step_ns"] is None:
        return ""
    if step["idle_pct"] is None:
        return ""
    idle, length = format_short(step["idle_ns"]), format_short(step["step_ns"])
    pct = format_pct(step["idle_pct"])
    return f"while profiling; an unprofiled step of {length} is idle for {idle}, {pct} %"


def _late(
    late: Mapping[str, Any], by: Mapping[str, Any] | None, others: Mapping[str, Any] | None
) -> str:
    last = f"{late['count']:,} {'collective' if late['count'] == 1 else 'collectives'}"
    sentence = (
        f"Late rank: rank {late['rank']} was last in {last}, and the other ranks waited "
        f"{format_duration(late['amount_ns'])}, {format_pct(late['share_pct'])} % of their windows"
    )
    if by is None:
        sentence += "; no part of its own device time explains half of the wait"
    else:
        what = LABELS.get(by["subject"]) or f"idle time {_because(by, is_explained=False)}"
        more = format_duration(by["amount_ns"])
        sentence += f"; it has {more} more {what} than the median rank{_origin(by)}"
    if others is None:
        return f"{sentence}."
    amount, share = format_duration(others["amount_ns"]), format_pct(others["share_pct"])
    what = LABELS["exposed_comm"].capitalize()
    return f"{sentence}. {what} of the other ranks: {amount}, {share} % of their windows."


def _because(row: Mapping[str, Any], *, is_explained: bool = True) -> str:
    cause = row["subject"]
    if cause == "unknown":
        return "without a known cause"
    meaning = f", {CAUSES[cause]}" if is_explained and cause in CAUSES else ""
    return f"caused by {printable(cause)}{meaning}"


def _origin(row: Mapping[str, Any]) -> str:
    """Return the op, or else the Python function, with the largest share of the loss."""
    place = row["top_op"] or row["top_python"]
    return f", the largest share from {printable(place)}" if place else ""


def _loss(row: Mapping[str, Any]) -> str:
    if row["subject"] in _LOSSES:
        return _LOSSES[row["subject"]]
    gaps = f"{row['count']:,} {'gap' if row['count'] == 1 else 'gaps'}"
    return f"idle time {_because(row)} ({gaps}{_origin(row)})"
