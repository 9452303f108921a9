"""What a load came to, in the lines that `tracekit collect` ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.units import format_duration

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

_LATENCIES = {"e2e": "latency", "ttft": "time to first token"}
_SHOWN = ("p50", "p99", "max")


def serving_lines(throughput: Result, latency: Result) -> list[str]:
    """Return the lines of one run.

    Args:
        throughput: of analysis `throughput`; where nothing was answered there is no line of it.
        latency: of analysis `latency`; metrics without a value have no line.
    """
    out = []
    for row in throughput.to_dicts():
        if row["output_tokens_per_s"] is not None:
            rate = f"{row['output_tokens_per_s']:,.0f} new tokens/s"
            out.append(f"throughput: {rate} over {format_duration(row['interval_ns'])}")
    rows = {row["metric"]: row for row in latency.to_dicts()}
    for metric, name in _LATENCIES.items():
        times = rows.get(metric, {})
        if times.get("value_count"):
            shown = ", ".join(f"{of} {format_duration(times[f'{of}_ns'])}" for of in _SHOWN)
            out.append(f"{name}: {shown}")
    return out
