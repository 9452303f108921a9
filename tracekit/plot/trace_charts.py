"""Charts of traces: devices, modules, kernels, ranks, and launches.

Each function defines a chart with its name. It takes the rows of its analyses and returns a
drawing, or None without data.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tracekit import palette
from tracekit.analysis.result import Column, Result
from tracekit.errors import QueryError
from tracekit.palette import BLUE, GREY, INK, KIND, PARTS, PHASE, SKY, VERMILLION, series
from tracekit.plot._chart import Chart
from tracekit.plot._encoding import (
    Drawing,
    Rows,
    bar_step,
    bars,
    colours,
    devices_of,
    fixed,
    has_several_devices,
    icicle,
    largest,
    lines,
    names,
    nested_bars,
    parts,
    positive,
    quantity,
    stream_of,
    text_of,
    tooltip,
    where,
)
from tracekit.plot._registry import chart
from tracekit.plot.header_charts import POINT, parts_of_time
from tracekit.units import unit_of

MAX_LINES = 8

MAX_STEP_LINES = 16

WINDOW_PARTS = tuple(f"{part.name}_ns" for part in PARTS)
"""Columns with the parts of a device window."""

ROOFS = {"data sheet": ("dashed", [6, 4]), "measured": ("dotted", [2, 3])}
"""Line styles of roofs by their source."""


@chart("timeline")
def ranks(rows: Rows) -> Drawing | None:
    """Heat map of time by rank and part."""
    if len(rows) < 2:
        return None
    shares = tuple(f"{part.name}_pct" for part in PARTS)
    legend = {"title": "share of the device's window, %", "orient": "top"}
    spec = {
        "height": bar_step(len(rows)),
        "transform": [*where(rows), {"fold": list(shares), "as": ["part", "share_pct"]}],
        "mark": {"type": "rect"},
        "encoding": {
            "y": names("where"),
            "x": names("part", shares, words=True),
            "color": {
                "field": "share_pct",
                "type": "quantitative",
                "scale": {"domain": [0, 100], "scheme": "blues"},
                "legend": legend,
            },
            "tooltip": tooltip("where", "window_ns", *shares),
        },
    }
    return Drawing("Time breakdown of each rank, as a share of its window", spec)


@chart("rank_groups")
def rank_groups(rows: Rows) -> Drawing | None:
    """Groups of ranks with similar timelines: mean parts of the window per group."""
    if len(rows) < 2:
        return None

    def named(row: dict[str, Any]) -> str:
        number, count, alike = (
            text_of(row[column]) for column in ("group_number", "rank_count", "alike")
        )
        return f"group {number} · {count} {'rank' if row['rank_count'] == 1 else 'ranks'} · {alike}"

    words = "(datum.rank_count === 1 ? ' rank · ' : ' ranks · ')"
    words = f"'group ' + datum.group_number + ' · ' + datum.rank_count + {words} + datum.alike"
    return bars(
        "Groups of ranks with similar behavior: mean of each group",
        rows,
        # The label is wide, because the end of the name identifies the group.
        y=names("which", [*map(named, rows)], label_px=400),
        x=("part_ns", "window_ns", "mean time of a rank's window"),
        colour=parts_of_time(*WINDOW_PARTS),
        tip=("which", "example_rank", "window_ns", *WINDOW_PARTS, "comm_wait_ns", "ranks"),
        transform=[
            {"calculate": words, "as": "which"},
            {"fold": [*WINDOW_PARTS], "as": ["part", "part_ns"]},
        ],
        stack="zero",
    )


@chart("rank_distribution")
def rank_distribution(rows: Rows) -> Drawing | None:
    """Minimum, median, and maximum of each part of the time over ranks."""
    rows = [row for row in rows if row["rank_count"] > 1]
    if not rows:
        return None
    x = quantity("min_ns", [row["max_ns"] for row in rows], "min to max; median, p95 (orange)")
    tip = tooltip(
        *("part", "min_ns", "min_rank", "median_ns", "median_rank", "p95_ns", "p95_rank"),
        *("max_ns", "max_rank", "spread_pct"),
    )
    spec = {
        "height": bar_step(len(rows)),
        "transform": [{"filter": {"field": "rank_count", "gt": 1}}],
        "encoding": {"y": names("part", [row["part"] for row in rows]), "tooltip": tip},
        "layer": [
            {
                "mark": {"type": "bar", "height": {"band": 0.4}},
                "encoding": {"x": x, "x2": {"field": "max_ns"}, "color": fixed(SKY)},
            },
            *(
                {
                    "mark": {**POINT, "size": 60},
                    "encoding": {"x": {**x, "field": column}, "color": fixed(colour)},
                }
                for column, colour in (("p95_ns", VERMILLION), ("median_ns", BLUE))
            ),
        ],
    }
    return Drawing("Spread of each part of the time over the ranks", spec)


def _step_axis() -> dict[str, Any]:
    step = quantity("step", [], "step", scale={"zero": False})
    step["axis"]["tickMinStep"] = 1
    return step


@chart("steps")
def steps(rows: Rows) -> Drawing | None:
    """Length of each step on each device; chart step_spread shows many devices."""
    rows = [row for row in rows if row["step"] is not None and row["span_ns"]]
    devices, labels = devices_of(rows)
    if not rows or len(devices) > MAX_STEP_LINES:
        return None
    spans = [row["span_ns"] for row in rows]
    return lines(
        "Steps over time",
        _step_axis(),
        quantity("span_ns", spans, "duration on the device"),
        colours("where", series(labels)),
        ("where", "step", "span_ns", "work_ns", "dur_ns", "wall_ns", "kernel_count"),
        height=220,
        transform=[{"filter": {"field": "step", "valid": True}}, *where(rows)],
        mark={"point": True},
    )


@chart("step_spread")
def step_spread(rows: Rows) -> Drawing | None:
    """Minimum, median, and maximum length of each step over many devices."""
    if max(row["rank_count"] for row in rows) <= MAX_STEP_LINES:
        return None
    of = {"min_ns": SKY, "median_ns": BLUE, "max_ns": VERMILLION}
    return lines(
        "Differences between devices in each step",
        _step_axis(),
        quantity("part_ns", [row["max_ns"] for row in rows], "duration on the device"),
        parts(of),
        ("step", "part", "part_ns", "rank_count", "min_rank", "max_rank", "spread_pct"),
        transform=[{"fold": [*of], "as": ["part", "part_ns"]}],
        mark={"point": True},
    )


@chart("module_icicle")
def modules(rows: Rows) -> Drawing | None:
    """Icicle chart of GPU time by module."""
    title = "Time by module"
    return _module_icicle(rows, "modules", title, fixed(SKY))


@chart("module_icicle")
def phase_modules(rows: Rows) -> Drawing | None:
    """Icicle chart of time by phase and module, with idle time."""
    of = {
        row["phase"]: (PHASE | KIND).get(row["phase"], PHASE["other"])
        for row in rows
        if row["view"] == "phases"
    }
    title = "Busy and idle time by phase and module"
    return _module_icicle(rows, "phases", title, colours("phase", of))


def _module_icicle(rows: Rows, view: str, title: str, colour: dict[str, Any]) -> Drawing | None:
    tip = ("module_path", "phase", "total_wall_ns", "self_wall_ns", "wall_pct", "idle_ns")
    of_view = {"transform": [{"filter": {"field": "view", "equal": view}}]}
    return icicle(title, [row for row in rows if row["view"] == view], colour, tip, **of_view)


@chart("class_icicle")
def class_modules(rows: Rows) -> Drawing | None:
    """Icicle chart of GPU time by kernel class and module."""
    classes = palette.classes(list(dict.fromkeys(row["class"] for row in rows)))
    title = "Time by module and kernel class"
    tip = ("module_path", "class", "total_wall_ns", "self_wall_ns", "wall_pct")
    return icicle(title, rows, colours("class", classes), tip)


@chart("kernels")
def kernels(rows: Rows) -> Drawing | None:
    """Kernels with the most GPU time."""
    keep, shown, omitted = largest(rows, "wall_ns", 25)
    # Bars are not summed over devices, because each device's list is incomplete.
    label = "datum.class + ' · ' + datum.name"
    if has_several_devices(rows):
        label = where(rows)[0]["calculate"] + " + ' · ' + " + label
    return bars(
        "Kernels with the most device time",
        shown,
        y={**names("which", label_px=400), "sort": "-x"},
        x=("wall_ns", "wall_ns", "wall time"),
        colour=fixed(BLUE),
        tip=("which", "class", "kernel_count", "wall_ns", "kernel_ns", "mean_ns"),
        transform=[*keep, {"calculate": label, "as": "which"}],
        omitted=omitted,
    )


@chart("compute_memory", "roofline")
def gemms(rows: Rows, roofline: Rows) -> Drawing | None:
    """Roofline: rates of GEMMs and other ops by arithmetic intensity."""
    rated = [row for row in rows if row["intensity_flop_per_byte"] and row["flop_per_s"]]
    if not rated:
        return None
    types = sorted({row["dtype"] for row in rated} - {None})
    roofs = [row for row in roofline if row["dtype"] in types]
    kinds = [kind for kind in ROOFS if any(row["roof"] == kind for row in roofs)]
    rates = [row["flop_per_s"] for row in rated + roofs]
    x = quantity("intensity_flop_per_byte", [], "FLOP per byte", scale={"type": "log"})
    x["axis"]["labelOverlap"] = True
    y = quantity("flop_per_s", rates, "reached", scale={"type": "log"})
    if roofs:
        roof_text = ", ".join(f"{kind} ({ROOFS[kind][0]})" for kind in kinds)
        y["axis"]["title"] = y["axis"]["title"].replace("reached", f"reached; roofs: {roof_text}")
    tip = tooltip(
        *("op_class", "dtype", "phase", "kernel_ns", "flop_per_s"),
        *("intensity_flop_per_byte", "bound", "attainable_pct", "reason"),
    )
    colour = colours("op_class", series(sorted({row["op_class"] for row in rated})))
    label = "datum.dtype + ' · ' + datum.roof + ' · ' + datum.rank + ' · ' + datum.device"
    of_roof = {
        "x": x,
        "y": y,
        "detail": {"field": "which"},
        "color": fixed(INK),
        "tooltip": tooltip("dtype", "roof", "flop_per_s", "ridge_flop_per_byte", "source"),
    }
    layers: list[dict[str, Any]] = [
        {
            "data": {"name": "roofline"},
            "transform": [
                {"filter": {"field": "roof", "equal": kind}},
                {"filter": {"field": "dtype", "oneOf": types}},
                {"calculate": label, "as": "which"},
            ],
            "mark": {"type": "line", "strokeDash": ROOFS[kind][1], "strokeWidth": 1.5},
            "encoding": of_roof,
        }
        for kind in kinds
    ]
    ops = {
        "transform": positive("intensity_flop_per_byte", "flop_per_s"),
        "mark": {**POINT, "size": 90},
        "encoding": {"x": x, "y": y, "color": colour, "tooltip": tip},
    }
    spec = {"height": 320, "layer": [*layers, ops]}
    also = ("roofline",) if roofs else ()
    return Drawing("Achieved rate of ops by arithmetic intensity", spec, also=also)


@chart("communication_totals")
def communication(rows: Rows) -> Drawing | None:
    """Overlapped and exposed time of collectives by class."""
    classes = list(dict.fromkeys(row["class"] for row in rows))
    return nested_bars(
        "Communication: time in flight and exposed time",
        len(classes),
        names("class", classes),
        (
            "comm_ns",
            "wall_ns",
            [row["comm_ns"] for row in rows],
            "in flight (pale), exposed (full)",
        ),
        (KIND["comm"], KIND["comm"], 0.35),
        ("class", "pg_name", "call_count", "comm_ns", "wall_ns", "overlapped_pct", "message_bytes"),
        stack="zero",
        detail={"field": "pg_name"},
    )


@chart("collectives")
def collectives(rows: Rows) -> Drawing | None:
    """Bus bandwidth of single collectives by message size."""
    rows = [row for row in rows if row["message_bytes"] and row["bus_bytes_per_s"]]
    if not rows:
        return None
    sizes, rates = ([row[c] for row in rows] for c in ("message_bytes", "bus_bytes_per_s"))
    log = {"type": "log"}
    tip = ("class", "pg_name", "rank", "message_bytes", "bus_bytes_per_s", "dur_ns", "wall_ns")
    return lines(
        "The longest collectives: size against bus bandwidth",
        quantity("message_bytes", sizes, "size of the message", scale=log),
        quantity("bus_bytes_per_s", rates, "bus bandwidth", scale=log),
        colours("class", series(sorted({row["class"] for row in rows}))),
        tip,
        height=280,
        transform=positive("message_bytes", "bus_bytes_per_s"),
        mark={**POINT, "opacity": 0.7},
    )


@chart("collective_skew")
def collective_skew(rows: Rows) -> Drawing | None:
    """Collectives with the longest waits between ranks: transfer time and longest wait."""
    matched = [row for row in rows if row["number"] is not None]
    keep, rows, omitted = largest(matched, "max_wait_ns", 25)
    rows = sorted(rows, key=lambda row: -row["max_dur_ns"])
    shares = {"transfer_ns": GREY, "max_wait_ns": VERMILLION}
    # Few traces name their process groups; without names, groups are not distinguished.
    has_groups = any(row["pg_name"] is not None for row in rows)
    group = " + ' ' + datum.pg_name" if has_groups else ""
    order = [
        f"{row['class']}{' ' + text_of(row['pg_name']) if has_groups else ''} #{row['number']}"
        for row in rows
    ]
    return bars(
        "Collectives with the longest waits between ranks",
        rows,
        y=names("which", order),
        x=("part_ns", "max_dur_ns", "duration on the rank that waited longest"),
        colour=parts(shares),
        tip=(
            *("which", "transfer_ns", "max_wait_ns", "straggler_rank"),
            *("longest_waiting_rank", "message_bytes"),
        ),
        transform=[
            {"filter": {"field": "number", "valid": True}},
            *keep,
            {"calculate": f"datum.class{group} + ' #' + datum.number", "as": "which"},
            {"fold": list(shares), "as": ["part", "part_ns"]},
        ],
        omitted=omitted,
        stack="zero",
    )


@chart("critical_path")
def critical_path(rows: Rows) -> Drawing | None:
    """Critical path to the end of each rank, over time."""
    kinds = sorted({row["kind"] for row in rows})
    ranks = list(dict.fromkeys(text_of(row["rank"]) for row in rows))
    times = [row["end_ns"] for row in rows]
    spec = {
        "height": bar_step(len(ranks)),
        "mark": {"type": "bar"},
        "encoding": {
            "y": names("rank"),
            "x": quantity("start_ns", times, "time since the start of the window"),
            "x2": {"field": "end_ns"},
            "color": colours("kind", series(kinds)),
            "tooltip": tooltip(
                *("position", "kind", "name", "op", "module_path", "phase", "class", "path_ns")
            ),
        },
    }
    return Drawing("Critical path to the end of each rank", spec)


@chart("queue_length")
def queue_length(rows: Rows) -> Drawing | None:
    """Mean and maximum queue length of each stream."""
    keep, shown, omitted = largest(rows, "max_length")
    label, _ = stream_of(rows)
    axis = "queued device events: most (pale), mean (full)"
    return nested_bars(
        "Queue length of each stream",
        len(shown),
        names("which"),
        ("max_length", "mean_length", [], axis),
        (SKY, BLUE, 0.5),
        ("which", "mean_length", "max_length", "empty_pct", "span_ns", "kernel_count"),
        transform=[*keep, label],
        omitted=omitted,
        has_unit=False,
    )


@chart("queue_over_time")
def queue_over_time(rows: Rows) -> Drawing | None:
    """Queue length of each stream over time."""
    label, name_of = stream_of(rows)
    highest: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        highest[name_of(row)] = max(highest[name_of(row)], row["mean_length"])
    longest = set(sorted(highest, key=lambda one: -highest[one])[:MAX_LINES])
    shown = [name for name in highest if name in longest]
    times = [row["start_ns"] for row in rows]
    return lines(
        "Queue length over time",
        quantity("start_ns", times, "time since the first event", scale={"nice": False}),
        quantity("mean_length", [], "queued device events, mean"),
        colours("which", series(shown)),
        ("which", "start_ns", "dur_ns", "mean_length", "max_length"),
        transform=[label, {"filter": {"field": "which", "oneOf": shown}}],
        mark={"interpolate": "step-after", "strokeWidth": 1.5},
        omitted=f"the {len(shown)} longest of {len(highest):,}"
        if len(highest) > len(shown)
        else "",
    )


@chart("launch_delays")
def launch_delays(rows: Rows) -> Drawing | None:
    """Delay between launch and start of device work, by launch call."""
    keep, shown, omitted = largest(rows, "p99_delay_ns")
    label = where(rows)[0]["calculate"] + " + ' · ' + datum.launch"
    delays = [row["p99_delay_ns"] for row in shown]
    axis = "delay: 99th percentile (pale), median (full)"
    return nested_bars(
        "Delay between launch and start of device work",
        len(shown),
        names("which"),
        ("p99_delay_ns", "median_delay_ns", delays, axis),
        (SKY, BLUE, 0.5),
        (
            *("which", "kernel_count", "median_delay_ns", "p99_delay_ns"),
            *("max_delay_ns", "mean_launch_ns"),
        ),
        transform=[*keep, {"calculate": label, "as": "which"}],
        omitted=omitted,
    )


@chart("memory_over_time")
def memory(every: Rows) -> Drawing | None:
    """Allocated and reserved memory over time.

    With an accelerator, host memory is only in the table.
    """
    rows = [row for row in every if row["device"] != "cpu"] or every
    is_host = rows[0]["device"] == "cpu"
    devices, labels = devices_of(rows, every)
    shown = labels[:MAX_LINES]
    times = [row["at_ns"] for row in rows]
    sizes = [max(row["allocated_bytes"], row["reserved_bytes"] or 0) for row in rows]
    x = quantity("at_ns", times, "time since the first event", scale={"zero": False, "nice": False})
    of: dict[str, dict[str, Any]] = {
        "allocated_bytes": {"strokeWidth": 1.5},
        "reserved_bytes": {"strokeDash": [4, 3]},
    }
    if is_host:
        del of["reserved_bytes"]
    y_title = "in use" if is_host else "in use; reserved (dashed)"
    spec = {
        "height": 240,
        "transform": [*where(every), {"filter": {"field": "where", "oneOf": shown}}],
        "encoding": {
            "x": x,
            "color": colours("where", series(shown)),
            "tooltip": tooltip(
                "where", "at_ns", "allocated_bytes", "reserved_bytes", "event_count"
            ),
        },
        "layer": [
            {
                "mark": {"type": "line", "interpolate": "step-after", **how},
                "encoding": {"y": quantity(column, sizes, y_title)},
            }
            for column, how in of.items()
        ],
    }
    omitted = f"{len(shown)} of {len(devices):,} devices" if len(devices) > len(shown) else ""
    title = "Memory of the host over time" if is_host else "Memory of the devices over time"
    return Drawing(title, spec, omitted)


def pivot_cells(pivot: Result, keys: int, columns: str, values: str) -> Chart:
    """Return the heat map of a pivot."""
    if not pivot:
        raise QueryError(
            "the trace has no data for this pivot", hint="choose other rows with `where`"
        )
    unit = f"_{unit_of(values)}"
    shown = [name.rstrip().removesuffix(unit) for name in pivot.column_names[keys:-2]]
    cells = [
        (" · ".join(row[:keys]), name, value)
        for row in pivot.rows[:-1]
        for name, value in zip(shown, row[keys:-2], strict=True)
    ]
    rows = list(dict.fromkeys(cell[0] for cell in cells))
    spec = {
        "data": {"name": "pivot"},
        "height": bar_step(len(rows)),
        "mark": {"type": "rect"},
        "encoding": {
            "y": names("row", rows, label_px=400),
            "x": names("column", shown),
            "color": {
                "field": values,
                "type": "quantitative",
                "scale": {"scheme": "blues"},
                "legend": {"title": values, "orient": "top"},
            },
            "tooltip": tooltip("row", "column", values),
        },
    }
    table = Result(
        "pivot",
        (Column("row", "VARCHAR"), Column("column", "VARCHAR"), Column(values, "BIGINT")),
        cells,
    )
    return Chart("pivot", f"{values} by {columns}", spec, {"pivot": table})
