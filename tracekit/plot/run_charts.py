"""Charts of runs: serving requests, training methods, and microbenchmarks.

Each function returns a chart, as in `trace_charts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tracekit.palette import GREY, INK, OLIVE, PHASE, Colour, series
from tracekit.plot._encoding import (
    Drawing,
    Rows,
    bar_step,
    bars,
    colours,
    fixed,
    joined,
    largest,
    lines,
    names,
    nested_bars,
    parts,
    positive,
    quantity,
    request_of,
    tooltip,
)
from tracekit.plot._registry import chart, register

LIFE_PARTS: dict[str, Colour] = {
    "queued": OLIVE,
    "waiting": OLIVE,
    "prefill": PHASE["prefill"],
    "decode": PHASE["decode"],
    "between steps": GREY,
    "answering": GREY,
    "not traced": INK,
}
"""Parts of the time of a request, with colors."""

STEP_PARTS = {"prefill_token_count": PHASE["prefill"], "decode_token_count": PHASE["decode"]}

STAIRS = {"interpolate": "step-after", "strokeWidth": 1.5}


def _runs(rows: Rows) -> dict[str, Any]:
    return colours("run", series(list(dict.fromkeys(row["run"] for row in rows))))


def _time(rows: Rows) -> dict[str, Any]:
    times = [row["start_ns"] for row in rows]
    title = "time since the start of the load"
    return quantity("start_ns", times, title, scale={"nice": False})


@chart("throughput")
def throughput(rows: Rows) -> Drawing | None:
    """Output tokens per second of each serving run."""
    keep, rows, omitted = largest(rows, "output_tokens_per_s")
    return bars(
        "Serving throughput",
        rows,
        y=names("which"),
        x=("output_tokens_per_s", "output_tokens_per_s", "output tokens"),
        colour=colours("engine", series(sorted({str(row["engine"]) for row in rows}))),
        tip=(
            *("run", "model", "engine", "output_tokens_per_s", "total_tokens_per_s"),
            *("requests_per_s", "ok_count", "answered_pct", "outcome"),
        ),
        transform=[*keep, {"calculate": "datum.model + ' · ' + datum.run", "as": "which"}],
        omitted=omitted,
    )


@chart("throughput_over_time")
def throughput_over_time(rows: Rows) -> Drawing | None:
    """Output tokens per second over time."""
    rows = [row for row in rows if row["output_tokens_per_s"] is not None]
    if not rows:
        return None
    rates = [row["output_tokens_per_s"] for row in rows]
    return lines(
        "Output tokens/s over time",
        _time(rows),
        quantity("output_tokens_per_s", rates, "output tokens"),
        _runs(rows),
        ("run", "start_ns", "dur_ns", "output_token_count", "output_tokens_per_s"),
        height=220,
        transform=[{"filter": {"field": "output_tokens_per_s", "valid": True}}],
        mark=STAIRS,
    )


@chart("throughput_over_time")
def running_requests(rows: Rows) -> Drawing | None:
    """Number of requests in flight over time."""
    return lines(
        "Number of running requests over time",
        _time(rows),
        quantity("running_count", [], "running requests"),
        _runs(rows),
        ("run", "start_ns", "running_count", "sent_count", "ended_count", "ok_count"),
        height=160,
        mark=STAIRS,
    )


@chart("serving_steps")
def serving_steps(rows: Rows) -> Drawing | None:
    """Prefill and decode tokens of each step of a serving engine."""
    rows = [row for row in rows if row["step"] is not None and any(row[c] for c in STEP_PARTS)]
    if not rows:
        return None
    starts = [row["start_ns"] for row in rows]
    return lines(
        "Batch of each step: prefill and decode tokens",
        quantity("start_ns", starts, "start of the step", scale={"zero": False}),
        quantity("token_count", [], "tokens in the step", scale={"type": "log"}),
        parts(STEP_PARTS),
        ("step", "phase", "part", "token_count", "request_count", "dur_ns", "idle_pct"),
        transform=[
            {"filter": {"field": "step", "valid": True}},
            {"fold": [*STEP_PARTS], "as": ["part", "token_count"]},
            {"filter": {"field": "token_count", "gt": 0}},
        ],
        mark={"type": "point", "filled": True, "size": 40, "opacity": 0.8},
    )


@chart("serving_steps")
def decode_batch(rows: Rows) -> Drawing | None:
    """Duration of decode-only steps of a serving engine by batch size."""
    rows = [row for row in rows if row["phase"] == "decode" and row["decode_request_count"]]
    if not rows:
        return None
    durations = [row["dur_ns"] for row in rows]
    return lines(
        "Duration of decode-only steps by batch size",
        quantity("decode_request_count", [], "decoded requests"),
        quantity("dur_ns", durations, "duration of the step"),
        fixed(PHASE["decode"]),
        ("step", "decode_request_count", "dur_ns", "idle_pct"),
        transform=[
            {"filter": {"field": "phase", "equal": "decode"}},
            {"filter": {"field": "decode_request_count", "gt": 0}},
        ],
        mark={"type": "point", "filled": True, "size": 40, "opacity": 0.8},
    )


@chart("requests")
def requests(rows: Rows) -> Drawing | None:
    """Slowest requests, with the time to the first token and to the end."""
    keep, rows, omitted = largest(rows, "e2e_ns", 30)
    if not rows:
        return None
    label, name_of = request_of(rows)
    lives = [row["e2e_ns"] for row in rows]
    return nested_bars(
        "Slowest requests of the measured load, from the time they were sent",
        len(rows),
        names("which", [*map(name_of, rows)]),
        ("e2e_ns", "ttft_ns", lives, "to the first token (full), to the end (pale)"),
        (PHASE["decode"], PHASE["prefill"], 0.4),
        (
            *("which", "outcome", "e2e_ns", "ttft_ns", "tpot_ns", "max_itl_ns"),
            *("prompt_token_count", "output_token_count"),
        ),
        transform=[*keep, label],
        omitted=omitted,
    )


@chart("request_life")
def request_life(rows: Rows) -> Drawing | None:
    """Life of each request: queueing, prefill steps, and decode steps."""
    label, name_of = request_of(rows)
    order = list(dict.fromkeys(map(name_of, rows)))
    result = {row["part"] for row in rows}
    ends = [row["end_ns"] for row in rows]
    title = "time since the start of the load"
    spec = {
        "height": bar_step(len(order)),
        "transform": [label],
        "mark": {"type": "bar", "height": {"band": 0.8}},
        "encoding": {
            "y": names("which", order),
            "x": quantity("start_ns", ends, title, scale={"zero": False, "nice": False}),
            "x2": {"field": "end_ns"},
            "color": colours(
                "part", {part: of for part, of in LIFE_PARTS.items() if part in result}
            ),
            "tooltip": tooltip(
                *("which", "part", "step", "dur_ns", "request_count", "prefill_token_count"),
                *("decode_token_count", "e2e_ns", "outcome"),
            ),
        },
        "usermeta": {"zoom": "x"},
    }
    title = "Life of the slowest requests; requests of the profiled load first"
    return Drawing(title, spec)


def _shares(
    rows: Rows, *, title: str, along: str, share: str, metric: str | None = None
) -> Drawing | None:
    """Return a cumulative line per run; `metric` selects rows if there are several metrics."""
    if metric is not None:
        rows = [row for row in rows if row["metric"] == metric]
        if not any(row["value_ns"] for row in rows):
            return None
    tip = ("run", "metric", "value_ns", "cumulative_pct", "cumulative_count", "request_count")
    of_metric = [{"filter": {"field": "metric", "equal": metric}}] if metric else []
    return lines(
        title,
        quantity("value_ns", [row["value_ns"] for row in rows], along),
        quantity("cumulative_pct", [], share, scale={"domain": [0, 100]}),
        _runs(rows),
        tuple(column for column in tip if column in rows[0]),
        transform=of_metric,
        mark={"interpolate": "step-after"},
    )


_DISTRIBUTIONS = {
    "latency_cdf": (
        "e2e",
        "Latency CDF: share of the requests completed within a time",
        "time from sending to the end of a request",
        "requests completed within this time",
    ),
    "ttft_cdf": (
        "ttft",
        "Time to first token (TTFT)",
        "time to first token",
        "requests with a token within this time",
    ),
    "tpot_cdf": (
        "tpot",
        "Time per output token after the first (TPOT), per request",
        "time per output token",
        "requests at or below this time",
    ),
    "itl_cdf": (
        "itl",
        "Time between two tokens (inter-token latency)",
        "time since the previous token",
        "tokens within this time",
    ),
    "client_wait_cdf": (
        "client_wait",
        "Time the client delayed requests before sending them",
        "delay",
        "requests at or below this time",
    ),
}

for _name, (_metric, _title, _along, _share) in _DISTRIBUTIONS.items():
    _drawn = partial(_shares, title=_title, along=_along, share=_share, metric=_metric)
    register(_name, ("latency_cdf",), _drawn, f"{_title}: share of the requests by run.")


@chart("queue_cdf")
def queue_cdf(rows: Rows) -> Drawing | None:
    """CDF of the queueing time of requests."""
    title = "Queueing time of requests, from sending to their first step"
    share = "requests at or below this time"
    return _shares(rows, title=title, along="time in the queue", share=share)


def _by_method(rows: Rows, title: str, column: str, axis: str) -> Drawing | None:
    keep, rows, omitted = largest(rows, column)
    label, name_of = joined("model", "method", "run")
    return bars(
        title,
        rows,
        y=names("which", [*map(name_of, rows)]),
        x=(column, column, axis),
        colour=colours("stage", series(sorted({str(row["stage"]) for row in rows}))),
        tip=(
            *("run", "model", "method", "engine", "world_size", "batch_size"),
            *("mean_tokens_per_s", "std_tokens_per_s", "peak_bytes"),
        ),
        transform=[*keep, label],
        omitted=omitted,
    )


@chart("methods")
def methods(rows: Rows) -> Drawing | None:
    """Tokens per second of each training method."""
    return _by_method(
        rows, "Tokens per second, by method", "mean_tokens_per_s", "tokens of all ranks"
    )


@chart("methods")
def method_memory(rows: Rows) -> Drawing | None:
    """Peak memory of each training method."""
    axis = "peak memory of the rank with the highest use"
    return _by_method(rows, "Peak memory, by method", "peak_bytes", axis)


@chart("scaling")
def scaling(rows: Rows) -> Drawing | None:
    """Speedup of tokens per second by number of devices."""
    rows = [row for row in rows if row["speedup"] is not None]
    setup = ("model", "stage", "method", "engine", "batch_size", "sequence_length")
    label, name_of = joined(*setup)
    sizes: dict[str, set[int]] = {}
    for row in rows:
        sizes.setdefault(name_of(row), set()).add(row["world_size"])
    labels = [name for name, one in sizes.items() if len(one) > 1]
    if not labels:
        return None
    size = quantity("world_size", [], "ranks")
    size["axis"]["tickMinStep"] = 1
    return lines(
        "Speedup with more ranks",
        size,
        quantity("speedup", [], "tokens/s relative to the base"),
        colours("which", series(labels)),
        (
            *("which", "device", "world_size", "base_world_size", "speedup"),
            *("efficiency_pct", "mean_tokens_per_s", "run"),
        ),
        height=260,
        transform=[
            {"filter": {"field": "speedup", "valid": True}},
            label,
            {"filter": {"field": "which", "oneOf": labels}},
        ],
        mark={"point": True},
    )


def _curves(
    title: str,
    along: tuple[str, str],
    reached: tuple[str, str],
    of: Sequence[str],
    also: Sequence[str],
    rate_scale: Mapping[str, Any],
    rows: Rows,
) -> Drawing | None:
    """Return curves of microbenchmarks by size; the columns in `of` identify a curve."""
    (x, x_title), (y, y_title) = along, reached
    rows = [row for row in rows if row[x] and row[y]]
    if not rows:
        return None
    label, name_of = joined(*of, name="curve")
    return lines(
        title,
        quantity(x, [row[x] for row in rows], x_title, scale={"type": "log"}),
        quantity(y, [row[y] for row in rows], y_title, scale=dict(rate_scale)),
        colours("curve", series(list(dict.fromkeys(map(name_of, rows))))),
        ("curve", x, y, *also),
        height=280,
        transform=[*positive(x, y), label],
        mark={"point": True},
    )


_CURVES: dict[str, tuple[Any, ...]] = {
    "bench_gemm": (
        "GEMM rates on the machine, by number of rows.",
        "Achieved GEMM rate, by size",
        ("m", "rows of the GEMM (M)"),
        ("flop_per_s", "reached"),
        ("run", "device", "op", "dtype", "series"),
        ("n", "k", "peak_pct", "median_ns", "interval_pct", "device_name"),
        {"zero": True},
    ),
    "bench_memcpy": (
        "Copy bandwidth of the machine, by size.",
        "Copy bandwidth, by size",
        ("message_bytes", "size of the copy"),
        ("bytes_per_s", "rate"),
        ("run", "device", "op", "memory"),
        ("median_ns", "interval_pct", "peak_pct", "device_name"),
        {"type": "log"},
    ),
    "bench_collectives": (
        "Bandwidth of collectives on the machine, by message size.",
        "Collective bandwidth, by size",
        ("message_bytes", "size of the message"),
        ("bus_bytes_per_s", "bus bandwidth"),
        ("run", "op", "backend", "group_size"),
        ("algorithm_bytes_per_s", "median_ns", "interval_pct", "device_name"),
        {"type": "log"},
    ),
}

for _name, (_about, *_settings) in _CURVES.items():
    register(_name, (_name,), partial(_curves, *_settings), _about)
