"""Figures of a run as a whole, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.comparison.ordered import Ordered
from tracekit.comparison.quantiles import thinned
from tracekit.comparison.serving import QUANTILES
from tracekit.errors import QueryError

if TYPE_CHECKING:
    from tracekit.trace import Trace

MFU_KNOWN_PCT = 95.0
"""MFU is known of a run if it is of so much of the time of its steps, percent."""

_QUANTILES = ("mean", "p50", "p90", "p99", "max")
_OF_REQUESTS = ("e2e", "ttft", "tpot")
"""Metrics of latency with one value for each request; those of one request are no samples."""

_MOST_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Mfu:
    """Model FLOPs utilisation of a run, and of which share of the time of its steps it is known."""

    share: float
    known_pct: float


def figures_of(trace: Trace) -> dict[str, float]:
    """Return the figures of a run as a whole, as far as it tells them.

    Where several runs are open together there is no run as a whole, so there are none of those that
    manifests and requests tell.

    Args:
        trace: the run, open.

    Returns:
        tokens_per_s; peak_memory, bytes, on the device of a run that has one; mfu, 0 to 1; and
        mean, p50, p90, p99 and max of each metric of latency, ns, as in `p99(ttft)`.
    """
    found: dict[str, float] = {}
    ((run_count,),) = trace.sql("SELECT count(*) FROM run")
    if run_count == 1:
        has_device = "EXISTS (FROM accelerator WHERE accelerator <> 'cpu')"
        for row in trace.sql(
            "SELECT tokens_per_s_mean, coalesce(nullif(peak_device_allocated_bytes, 0), "
            f"if({has_device}, NULL, peak_host_bytes)) FROM run"
        ):
            for name, value in zip(("tokens_per_s", "peak_memory"), row, strict=True):
                if value is not None:
                    found[name] = float(value)
    ((has_trace, has_requests),) = trace.sql("SELECT EXISTS (FROM trace), EXISTS (FROM request)")
    if has_trace:
        mfu = _mfu(trace)
        if mfu is not None and mfu.known_pct >= MFU_KNOWN_PCT:
            found["mfu"] = mfu.share
    if has_requests and run_count == 1:
        for one in trace.query("latency").to_dicts():
            for quantile in _QUANTILES:
                value = one[f"{quantile}_ns"]
                if value is not None:
                    found[f"{quantile}({one['metric']})"] = float(value)
    return found


def mfu_of(trace: Trace, label: str) -> Mfu:
    """Return the model FLOPs utilisation of a run, each step weighing by its time.

    Args:
        trace: the run, open.
        label: what it is called.

    Raises:
        QueryError: too little is known of it.
    """
    ((has_trace,),) = trace.sql("SELECT EXISTS (FROM trace)")
    found = _mfu(trace) if has_trace else None
    if found is None:
        raise QueryError(f"{label} does not tell mfu")
    if found.known_pct < MFU_KNOWN_PCT:
        raise QueryError(
            f"{label} tells mfu of {found.known_pct:.1f} % of the time of its steps, which is less "
            f"than {MFU_KNOWN_PCT:g} %"
        )
    return found


def _mfu(trace: Trace) -> Mfu | None:
    # mfu_pct is ideal time in percent of step_ns: weighed by step_ns the mean is that of the sums.
    rows = [(row["mfu_pct"], row["step_ns"]) for row in trace.query("mfu").to_dicts()]
    known_ns = sum(step_ns for share, step_ns in rows if share is not None)
    if not known_ns:
        return None
    ideal = sum(share * step_ns for share, step_ns in rows if share is not None)
    return Mfu(ideal / known_ns / 100, 100 * known_ns / sum(step_ns for _, step_ns in rows))


def repeats_of(trace: Trace) -> list[float]:
    """Return the tokens per second of each repeat of a run's measured steps.

    Args:
        trace: the run, open; nothing is returned where it is several.
    """
    ((run_count,),) = trace.sql("SELECT count(*) FROM run")
    if run_count != 1:
        return []
    rows = trace.sql("SELECT tokens_per_s FROM run_repeat ORDER BY repeat")
    return [value for (value,) in rows if value is not None]


def requests_of(trace: Trace, metric: str) -> Sequence[int]:
    """Return a latency of each request, ns; of gaps between tokens none, which are no samples.

    Args:
        trace: the run, open.
        metric: as in analysis `latency`.
    """
    if metric not in _OF_REQUESTS:
        return []
    rows = trace.sql(f"SELECT value_ns FROM request_latency('sent') WHERE metric = '{metric}'")
    return [value for (value,) in rows]


def latencies_of(trace: Trace) -> dict[str, Ordered]:
    """Return what a baseline keeps of the latencies of requests: by metric, ns, in order.

    Of up to 1,000 requests that is all; of more it is no longer, and what percentiles are compared
    by. Where several runs are open together there is nothing, as of :func:`figures_of`.

    Args:
        trace: the run, open.
    """
    ((run_count, has_requests),) = trace.sql("SELECT count(*), EXISTS (FROM request) FROM run")
    if run_count != 1 or not has_requests:
        return {}
    found = {metric: requests_of(trace, metric) for metric in _OF_REQUESTS}
    return {
        metric: thinned(series, QUANTILES, _MOST_KEPT) for metric, series in found.items() if series
    }


def left_out_of(trace: Trace, metric: str) -> str:
    """Return in words how many requests a percentile does not hold because they failed.

    Args:
        trace: the run, open.
        metric: as in analysis `latency`.
    """
    for row in trace.query("latency").to_dicts():
        if row["metric"] == metric and row["left_out_count"]:
            return f"{row['left_out_count']:,} requests that failed are left out"
    return ""
