"""What ranges and profiler cost, in words that claim no more than was measured."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.manifest import Overhead
from tracekit.units import format_duration


def step_cost(overhead: Overhead, plain_step_ns: Sequence[int]) -> str:
    """Return mean step times: plain, with ranges, with the profiler too; and the plain ones' range.

    A few steps vary by more than what ranges cost, so the times are said, not a difference.

    Args:
        overhead: mean step times, ns; `plain_step_ns` of it is known.
        plain_step_ns: the single plain steps, ns.
    """
    text = f"step {format_duration(overhead.plain_step_ns or 0)}"
    if len(plain_step_ns) > 1:
        text += f" ({format_duration(min(plain_step_ns))} to {format_duration(max(plain_step_ns))})"
    if overhead.ranges_step_ns is not None:
        text += f"; with ranges {format_duration(overhead.ranges_step_ns)}"
    if overhead.profiled_step_ns is not None:
        text += f"; with ranges and profiler {format_duration(overhead.profiled_step_ns)}"
    return text
