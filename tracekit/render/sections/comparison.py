"""Sections of comparisons: the difference between two runs and its causes, and runs over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from tracekit.palette import LABELS
from tracekit.render._cells import NOTHING, TextColumn
from tracekit.render._text import printable
from tracekit.render.sections._layout import (
    Row,
    Screen,
    change_column,
    figures,
    signed,
    signed_ms,
)
from tracekit.units import format_duration, format_ms, format_pct, short_decimals

_LITTLE_PCT, _MAX_PCT = 10, 95

_STYLES = {"slower": "red", "faster": "green", "same": "bold", "inconclusive": "yellow"}
_DECIDED = {"slower": "red", "faster": "green"}
HISTORY_NAMES = {
    "unprofiled_step_ns": "step without the profiler",
    "step_ns": "recorded step",
    "idle_pct": "idle time",
    "exposed_comm_pct": LABELS["exposed_comm"],
    "mfu_pct": "MFU of recorded steps",
    "run_mfu_pct": "MFU without the profiler",
    "tokens_per_s": "tokens/s",
}
EFFECTS = {
    "new": "new work",
    "gone": "removed work",
    "recompute": "recomputation on only one side, with idle time before it",
    "count": "different call counts",
    "clock": "different clocks",
    "cost": "same kernels, changed duration",
    "shape": "different shapes",
    "kernel": "different kernels",
    "overlap": "different overlap",
    "idle": "change in idle time",
}

_BUSY_TIME = "busy time"
_SERIES = ("base_series_ns", "new_series_ns")

_MAX_NOTES = 4
_MAX_CAUSES = 2
_MAX_CHILDREN = (3, 2)
_MAX_EFFECTS = 6
_MIN_SHARE = 0.05
_MIN_EFFECT_PCT = 1
_SERVING = ("comparison_latency", "comparison_throughput", "comparison_batches")


def _interval(row: Row) -> str:
    if row["low_pct"] is None:
        return NOTHING
    return f"{row['low_pct']:+,.1f} … {row['high_pct']:+,.1f} %"


def setup(screen: Screen) -> list[Text]:
    """Return a line per difference in the setup: all that matter, and some of the others."""
    title = Text("Configuration differences", style="bold")
    rows = screen.rows("comparison_setup")
    important = [row for row in rows if row["weight"] == "matters"]
    notes = [row for row in rows if row["weight"] != "matters"]
    shown = [*important, *notes[:_MAX_NOTES]]
    labels = [printable(f"{row['subject']} {row['name']}") for row in shown]
    texts = [
        " → ".join(
            printable("unknown" if row[side] is None else row[side]) for side in ("base", "new")
        )
        for row in shown
    ]
    styles = ["" if row["weight"] == "matters" else "dim" for row in shown]
    return screen.block(title, labels, [], after=texts, styles=styles, of=len(rows))


def total(screen: Screen) -> list[Text]:
    """Return the total difference with its verdict and its explanation."""
    (row,) = screen.rows("comparison")
    noise = screen.rows("comparison_noise")
    lines = [*_difference(row, noise), *_busy_time(noise), Text(_rests_on(row), "dim")]
    lines = [line for line in lines if line]
    labels = [row["per"].capitalize(), *([""] * (len(lines) - 1))]
    out = [
        screen.line(printable(f"{row['base']} → {row['new']}"), "bold"),
        *screen.facts(list(zip(labels, lines, strict=True))),
    ]
    effects = screen.rows("comparison_effects")
    shown = [one for one in effects if abs(one["base_pct"] or 100) >= _MIN_EFFECT_PCT]
    shown = shown[:_MAX_EFFECTS]
    if not shown:
        return out
    return [
        *out,
        Text(),
        *screen.block(
            "Causes" if row["run_delta_ns"] is None else "Causes while profiling",
            [f"{EFFECTS[effect['effect']]}{_causes(effect, screen)}" for effect in shown],
            [signed("delta_ns", shown), change_column("base_pct", shown)],
            of=len(effects),
        ),
    ]


def _causes(effect: Row, screen: Screen) -> str:
    """Return the idle causes that changed most, or the changed dimension, or an empty string."""
    if effect["effect"] == "shape":
        change = screen.rows("comparison")[0]["shape_change"]
        return "" if change is None else f": {printable(change)}"
    split = screen.rows("comparison_split")
    idle = [row["node"] for row in split if row["depth"] == 1 and row["name"] == "idle"]
    if effect["effect"] != "idle" or not idle:
        return ""
    changed = [row for row in split if row["parent"] in idle and row["delta_ns"]]
    changed.sort(key=lambda row: -abs(row["delta_ns"]))
    # Without amounts, because idle time before recomputation is part of another effect.
    named = [printable(row["name"]) for row in changed[:_MAX_CAUSES]]
    return f": {', '.join(named)}" if named else ""


def _difference(row: Row, noise: Sequence[Row]) -> list[Text]:
    """Return the difference between unprofiled steps, if known, and between recorded steps.

    The split below refers to recorded steps.
    """
    recorded = _from_to_line([row[name] for name in ("base_ns", "new_ns", "delta_ns", "delta_pct")])
    style = _STYLES.get(row["verdict"], "dim")
    if row["run_delta_ns"] is None:
        text = _by_median(row, noise)
        recorded.append(text.strip() or _verdict(row, noise), style=style)
        return [recorded]
    names = ("run_base_ns", "run_new_ns", "run_delta_ns", "run_delta_pct")
    run = _from_to_line([row[name] for name in names])
    run.append(_verdict_of_run(row, noise), style=style)
    if row["run_basis"] == "estimated" and row["run_low_ns"] != row["run_high_ns"]:
        ends = [row["run_low_ns"], row["run_high_ns"]]
        decimals = short_decimals(ends)
        low, high = (signed_ms(ns, decimals) for ns in ends)
        run.append(f" (unprofiled, estimated: {low} to {high} ms)")
    else:
        median = " median" if row["run_basis"] == "measured" else ""
        run.append(f" (unprofiled, {row['run_basis']}{median})")
    recorded.append(f"while profiling (mean){_disagreement(row)}", style="dim")
    recorded.append(_by_median(row, [one for one in noise if one["measure"] == row["per"]]))
    return [run, recorded]


def _by_median(row: Row, noise: Sequence[Row]) -> str:
    """Return the difference of the medians if its sign differs from that of the means."""
    if not noise or noise[0]["verdict"] not in _DECIDED:
        return ""
    median_pct = noise[0]["difference_pct"]
    if median_pct is None or median_pct * row["delta_ns"] >= 0:
        return ""
    return (
        f" {noise[0]['verdict']} by the median ({median_pct:+,.1f} %): "
        f"a few {noise[0]['measure']}s dominate the mean"
    )


def _from_to_line(times: Sequence[Any]) -> Text:
    """Return the start of a line: base, new, the difference, and its percentage of the base."""
    *ns, percent = times
    decimals = short_decimals(ns)
    base, new, _ = (format_ms(one, decimals) for one in ns)
    line = Text(f"{base} → {new} ms   ")
    line.append(f"{signed_ms(ns[-1], decimals)} ms", style="bold")
    if percent is not None:
        line.append(f" ({percent:+,.1f} %)", style="bold")
    return line.append("   ")


def _verdict_of_run(row: Row, noise: Sequence[Row]) -> str:
    if row["run_basis"] == "estimated":
        return row["verdict"] or ""
    # The first measure decides; it is unprofiled steps if there are enough.
    plain = [one for one in noise if one["measure"] == "unprofiled step"]
    return (
        _verdict(row, plain)
        if row["sample"] == "unprofiled step"
        else row["verdict"] or "no verdict"
    )


def _disagreement(row: Row) -> str:
    """Return how the recordings differ from the unprofiled runs, or an empty string."""
    recorded, run = row["delta_pct"], row["run_delta_pct"]
    if row["verdict"] == "inconclusive" or recorded is None or run is None:
        return ""
    if max(abs(recorded), abs(run)) < 2 * row["margin_pct"]:
        return ""
    if recorded * run < 0 and min(abs(recorded), abs(run)) > row["margin_pct"]:
        return ": the recordings show the opposite"
    recorded_ns, run_ns = abs(row["delta_ns"]), abs(row["run_delta_ns"])
    if recorded_ns < run_ns / 2:
        return ": the recordings hide most of the difference"
    if recorded_ns > 2 * run_ns:
        return ": most of the recorded difference is the profiler's"
    return ""


def _busy_time(noise: Sequence[Row]) -> list[Text]:
    """Return the busy time per step of both sides, which profiling changes least."""
    results = []
    for row in noise:
        if row["measure"] != _BUSY_TIME:
            continue
        base, new = (sum(row[name]) / len(row[name]) for name in _SERIES)
        change_pct = 100 * (new / base - 1) if base else None
        line = _from_to_line([base, new, new - base, change_pct])
        results.append(line.append(f"{_BUSY_TIME}: {_sides(row)}".removesuffix(": "), "dim"))
    return results


def _sides(row: Row) -> str:
    """Return the verdict of a measure, or the required number of samples if there are too few."""
    if row["verdict"] != "inconclusive" or row["needed_count"] is None:
        return row["verdict"] or ""
    counts = dict.fromkeys((row["base_count"], row["new_count"]))
    steps, needed = " and ".join(map(str, counts)), row["needed_count"]
    if row["is_apart"]:
        way = "slower" if row["difference_ns"] > 0 else "faster"
        return f"{way} in all {steps} samples; {needed} needed"
    return f"inconclusive: {steps} samples are too few, {needed} needed"


def _verdict(row: Row, noise: Sequence[Row]) -> str:
    verdict, sample = row["verdict"], row["sample"]
    if verdict is None:
        return f"no verdict: one {sample} on a side, noise unknown"
    if verdict == "same":
        return f"same within ±{row['within_pct']:.2g} %"
    if verdict == "inconclusive" and noise and noise[0]["needed_count"] is not None:
        have = min(noise[0]["base_count"], noise[0]["new_count"])
        # With large noise, more samples are needed.
        if noise[0]["is_apart"] or row["more_count"] == noise[0]["needed_count"] - have:
            return _sides(noise[0])
    if verdict == "inconclusive" and row["more_count"] is not None:
        many = f"{row['more_count']:,} more {sample}{'s' if row['more_count'] != 1 else ''}"
        return f"inconclusive: {many} on each side would likely decide"
    if verdict == "inconclusive":
        return f"inconclusive: at this noise level, no reasonable number of {sample}s would decide"
    return str(verdict)


def _rests_on(row: Row) -> str:
    """Return the basis of the figures in words."""
    parts = []
    if row["per"] != "window" or row["base_unit_count"] > 1 or row["new_unit_count"] > 1:
        what = "devices" if row["per"] == "window" else f"device {row['per']}s"
        parts.append(f"mean of {row['base_unit_count']:,} and {row['new_unit_count']:,} {what}")
    if row["matched_pct"] is None:
        parts.append("no device time to match")
    elif row["matched_pct"] < _MAX_PCT:
        matched = f"{format_pct(row['matched_pct'])} % of device time matched"
        is_little = row["matched_pct"] < _LITTLE_PCT
        parts.append(f"only {matched}: the sides share little work" if is_little else matched)
    outside = row["base_outside_pct"], row["new_outside_pct"]
    if any(outside) and None not in outside:
        parts.append(f"outside steps {format_pct(outside[0])} % and {format_pct(outside[1])} %")
    if row["clock_pct"] is not None:
        parts.append(f"all compute {row['clock_pct']:+.1f} %: different clocks")
    return " · ".join(parts)


def noise(screen: Screen) -> list[Text]:
    """Return a line per measure: counts, medians, interval, and verdict."""
    rows = screen.rows("comparison_noise")
    rows = [row for row in rows if row["base_count"] > 1 and row["new_count"] > 1]
    if screen.full or not rows:
        return []
    of = {"base_count": "count", "base_median_ns": "base median", "new_count": "count"}
    columns = [
        *figures(rows, of | {"new_median_ns": "new median"}, is_alike=False),
        change_column("difference_pct", rows),
        TextColumn("", "99.5 % interval", [_interval(row) for row in rows], True),
        TextColumn("", "", [_by_ranks(row) for row in rows], False),
    ]
    below = []
    for row in rows:
        notes = [f"{side}: {text}" for side in ("base", "new") if (text := _remarks(row, side))]
        if row["correlation"]:
            note = f"consecutive values are correlated ({row['correlation']:.2g})"
            notes.insert(0, f"{note}, so they carry less information")
        below.append("; ".join(notes))
    labels = [row["measure"] for row in rows]
    out = screen.block("Noise", labels, columns, below=below)
    (compared,) = screen.rows("comparison")
    is_one = 1 in (compared["base_run_count"], compared["new_run_count"])
    if is_one and any(row["verdict"] in _DECIDED for row in rows):
        out += screen.wrapped("one run on a side: run-to-run noise is unknown (--base, --new)")
    return out


def _by_ranks(row: Row) -> str:
    """Return the verdict, with a note if only the rank test excludes 0, not the interval."""
    verdict, low, high = row["verdict"], row["low_pct"], row["high_pct"]
    is_open = low is not None and high is not None and low <= 0 <= high
    return f"{verdict} by ranks" if is_open and verdict in _DECIDED else verdict or ""


def _remarks(row: Row, side: str) -> str:
    parts = []
    count = row[f"{side}_warm_up_count"]
    if count:
        warm_up = "the first is warm-up" if count == 1 else f"the first {count} are warm-up"
        # --skip applies to profiled steps only.
        parts.append(warm_up if row["measure"] != "step" else f"{warm_up}: --skip {count}")
    others = [n + 1 for n in row[f"{side}_outliers"] if n >= count]
    if others:
        parts.append(f"outliers: number {', '.join(map(str, others))}")
    if row[f"{side}_drift_pct"] is not None:
        parts.append(f"drifts by {row[f'{side}_drift_pct']:+.1f} % from first to last")
    return "; ".join(parts)


def split(screen: Screen) -> list[Text]:
    """Return the difference by category as a tree that adds up."""
    rows = screen.rows("comparison_split")
    children: dict[int | None, list[dict[str, Any]]] = {}
    for row in rows:
        children.setdefault(row["parent"], []).append(row)
    result = list(_shown(rows[0], children, abs(rows[0]["delta_ns"])))
    parts = [row for row, _ in result]
    title = Text.assemble(("Where", "bold"), (" while profiling", "dim"))
    return screen.block(
        title,
        [label for _, label in result],
        [
            *figures(parts, {"base_ns": "base", "new_ns": "new"}, is_alike=True),
            signed("delta_ns", parts, "change"),
            change_column("base_pct", parts),
        ],
        after=[row["verdict"] if row["verdict"] in _DECIDED else "" for row in parts],
    )


def _shown(
    node: dict[str, Any],
    children: Mapping[int | None, Sequence[dict[str, Any]]],
    whole_ns: int,
    indent: int = 0,
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the shown rows of the tree with labels, and one row per node for its other children."""
    depth = node["depth"]
    inside = sorted(children.get(node["node"], ()), key=lambda row: -abs(row["delta_ns"]))
    limit = _MAX_CHILDREN[depth] if depth < len(_MAX_CHILDREN) else 0
    largest = [row for row in inside[:limit] if abs(row["delta_ns"]) >= _MIN_SHARE * whole_ns]
    if depth == 0:
        largest = inside
    for row in largest:
        name = LABELS.get(row["name"], row["name"]) if depth == 0 else row["name"]
        only = children.get(row["node"], ())
        while len(only) == 1:
            # A node with a single child is merged with the child.
            name = f"{name} · {only[0]['name']}"
            row = row | {"node": only[0]["node"], "depth": only[0]["depth"]}
            only = children.get(row["node"], ())
        yield row, "  " * indent + printable(name)
        if row["delta_ns"]:
            yield from _shown(row, children, whole_ns, indent + 1)
    others = [row for row in inside if row not in largest]
    if largest and others:
        sums = {
            name: sum(row[name] for row in others) for name in ("delta_ns", "base_ns", "new_ns")
        }
        percents = [row["base_pct"] for row in others]
        rest = sums | {"base_pct": None if None in percents else sum(percents), "verdict": None}
        yield rest, "  " * indent + f"{len(others):,} more"


def serving(screen: Screen) -> list[Text]:
    """Return latencies, rates, and steps by phase, with reasons for differences."""
    results = [name for name in _SERVING if screen.data.get(name)]
    if "comparison_batches" in results:
        results = [*_SERVING]
    if not results:
        return []
    if screen.full:
        titles = {name.removeprefix("comparison_").capitalize(): name for name in results}
        return screen.tables(titles)
    latency, rates, batches = map(screen.rows, _SERVING)
    out = _requests(latency, rates, screen)
    steps = _steps(batches, screen)
    return [*out, *([Text()] if out and steps else []), *steps]


def _requests(latency: Sequence[Row], rates: Sequence[Row], screen: Screen) -> list[Text]:
    rows = [*latency, *rates]
    if not rows:
        return []
    labels = [
        *(f"{row['metric']} {row['statistic']}, ms" for row in latency),
        *(f"{row['rate'].replace('_', ' ')}/s" for row in rates),
    ]
    decimals = short_decimals(row[name] for row in latency for name in ("base_ns", "new_ns"))
    sides = [
        TextColumn("", side, [
            *(format_ms(row[f"{side}_ns"], decimals) for row in latency),
            *(f"{row[f'{side}_per_s']:,.1f}" for row in rates),
        ], True)
        for side in ("base", "new")
    ]  # fmt: skip
    verdicts = [
        f"needs {row['more_count']:,} more"
        if row["verdict"] == "inconclusive" and row["more_count"] is not None
        else str(row["verdict"])
        for row in rows
    ]
    counts = f", {rows[0]['base_count']:,} and {rows[0]['new_count']:,}"
    return screen.block(
        Text.assemble(("Requests", "bold"), (counts, "dim")),
        labels,
        [
            *sides,
            change_column("difference_pct", rows),
            TextColumn("", "99.5 % interval", [_interval(row) for row in rows], True),
            TextColumn("", "", verdicts, False),
        ],
        styles=[_DECIDED.get(row["verdict"], "") for row in rows],
    )


def _steps(rows: Sequence[Row], screen: Screen) -> list[Text]:
    if not rows:
        return []
    parts = {"by_batch_ns": "other batches", "by_own_batch_ns": "of one side"}
    parts["by_cost_ns"] = "same batches"
    counts = {"base_step_count": "base steps", "new_step_count": "new steps"}
    return screen.block(
        "Engine's steps, mean",
        [row["phase"] for row in rows],
        [
            *figures(rows, counts),
            *figures(rows, {"base_ns": "base", "new_ns": "new"}, is_alike=True),
            *(signed(name, rows, title) for name, title in parts.items()),
            TextColumn("", "", [row["verdict"] or "" for row in rows], False),
        ],
        styles=[_DECIDED.get(row["verdict"] or "", "") for row in rows],
    )


def history(screen: Screen) -> list[Text]:
    """Return the runs as a table, and a sentence per change."""
    changes = screen.rows("history_changes")
    out = [screen.heading("Runs"), *screen.table("history"), screen.heading("Changes")]
    if not changes:
        return [*out, screen.line("  no change beyond noise", "dim")]
    for row in changes:
        out.append(screen.line(f"  {change_sentence(row)}"))
        out.append(screen.line(f"    {_runs_of_change(row)}", "dim"))
    return out


def change_sentence(row: Row) -> str:
    """Return a sentence: the measure, its change, and the first run with the new value."""
    measure = row["measure"]
    sides = " → ".join(_amount(measure, row[side]) for side in ("before", "after"))
    share = "" if row["change_pct"] is None else f" ({row['change_pct']:+,.1f} %)"
    return f"{HISTORY_NAMES[measure]} {sides}{share} from {printable(row['run'])} on"


def _amount(measure: str, value: float) -> str:
    if measure.endswith("_ns"):
        return format_duration(round(value))
    return f"{format_pct(value)} %" if measure.endswith("_pct") else f"{value:,.1f}"


def _runs_of_change(row: Row) -> str:
    counts = [row[f"{side}_count"] for side in ("before", "after")]
    runs = [
        f"{count:,} {'run' if count == 1 else 'runs'} {side}"
        for count, side in zip(counts, ("before", "from there"), strict=True)
    ]
    by = "" if row["basis"] == "runs" else "; over steps, because there are too few runs"
    return f"{', '.join(runs)}; p = {row['p_value']:.2g}{by}"
