"""Sections on device time: by step, kind, phase, module, class, cause, and kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from rich.text import Text

from tracekit.analysis.breakdown import MFU, ROLES, has_modules, mean_mfu, unprofiled_step
from tracekit.palette import PARTS
from tracekit.render._bars import Part, cells_of, share_bar, stacked_bar
from tracekit.render._text import printable
from tracekit.render.sections._layout import (
    Row,
    Screen,
    device_label,
    figures,
    per_step,
    rank_text,
)
from tracekit.units import format_interval, format_ms, format_pct, format_short, short_decimals

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

MAX_DEVICES = 16
MAX_GROUPS = 6
MAX_MODULES = {True: 5, False: 8}
MAX_PHASES = 5
MAX_CAUSES = 5
MAX_COLLECTIVES = 5
MAX_KERNELS = 5
"""Maximum number of rows of a section; for modules, with and without figures per step."""

CAUSES = {
    "host_bound": "the CPU launches kernels late",
    "host_sync": "the CPU waits for the device",
    "launch_latency": "launches have latency",
    "data_loading": "data arrives late",
    "allocator": "memory is allocated or freed",
    "dependency": "other streams must finish first",
    "comm_wait": "other ranks arrive later",
    "not_recorded": "the device may have worked",
    "profiler": "the CPU waits for the profiler",
}
"""Explanations of idle causes."""

_CPU_NOTE = "on a CPU, time includes the call and the backend's span; bandwidth refers to the span"

_HOST = "red"
_CAUSE_STYLES = {
    "host_bound": _HOST,
    "host_sync": _HOST,
    "data_loading": _HOST,
    "allocator": _HOST,
    "launch_latency": "yellow",
    "graph_gap": "yellow",
    "not_recorded": "dim",
    "profiler": "dim",
    "dependency": "cyan",
    "comm_wait": "magenta",
}


def step(screen: Screen) -> list[Text]:
    """Return the step time, its busy and idle time, the main cause of idle time, and MFU."""
    row = step_of(screen.data)
    if row is None:
        return []
    recorded = "  while profiling" if row["step_ns"] is not None else ""
    lines = [("Step", Text(_lengths(row)))]
    is_shown = (row["other_pct"] or 0) >= 1
    kinds = ("busy", "other", "idle") if is_shown else ("busy", "idle")
    lengths = [row[f"{kind}_ns"] for kind in kinds if row[f"{kind}_ns"] is not None]
    decimals = short_decimals(lengths)
    shown = [format_ms(length, decimals) for length in lengths]
    room = max(map(len, shown))
    for kind, length, text in zip(kinds, lengths, shown, strict=False):
        line = Text(f"{text.rjust(room)} ms")
        pct = row[f"{kind}_pct"]
        if pct is not None:
            line.append(f"  {format_pct(pct):>5} %  ")
        if kind == "busy" and pct is not None:
            line.append_text(
                stacked_bar(
                    [_part("compute", length), _part("idle", sum(lengths) - length)],
                    max(min(screen.width - line.cell_len - 14, 50), 4),
                )
            )
        if kind == "other":
            line.append("launched outside steps")
        if kind == "idle" and (pct or 0) >= 1:
            line.append(main_cause(screen))
        if not screen.is_on_gpu:
            line.append(recorded)
        word = f"GPU {kind}" if screen.is_on_gpu else kind.capitalize()
        lines.append(("Other work" if kind == "other" else word, line))
    comm_ns = sum(phase["step_exposed_comm_ns"] or 0 for phase in screen.rows("phase_totals"))
    if comm_ns:
        text = format_ms(comm_ns, decimals).rjust(room)
        lines.append(("Exposed comm", Text(f"{text} ms{recorded}")))
    if text := _mfu(screen):
        lines.append(("MFU", Text(text)))
    return [*screen.facts(lines), *([] if is_shown else _outside(screen))]


def _legend(labels: Mapping[str, str]) -> Text:
    """Return the glyph and the label of parts of a bar."""
    result = Text(style="not bold")
    for part in PARTS:
        if part.name in labels:
            result.append("  ").append(part.glyph, style=part.colour.terminal)
            result.append(f" {labels[part.name]}")
    return result


def _part(kind: str, amount: float) -> Part:
    (part,) = (part for part in PARTS if part.name == kind)
    return Part(amount, part.glyph, part.colour.terminal)


def _lengths(row: Row) -> str:
    """Return the unprofiled step with its interval, and the recorded step."""
    recorded = f"mean {format_short(row['recorded_step_ns'])} while profiling"
    basis = row["basis"]
    if basis is None:
        return recorded
    if basis == "unknown":
        return f"{recorded}  ·  unprofiled: {printable(row['reason'])}"
    low, high = row["low_ns"], row["high_ns"]
    if row["step_ns"] is None:
        return f"{format_interval(low, high)} unprofiled ({basis})  ·  {recorded}"
    text = basis
    if low is not None and high is not None:
        text = "median, p10–p90" if basis == "measured" else f"{basis},"
        text += f" {format_interval(low, high)}"
    elif basis == "measured":
        text = "measured median"
    return f"{format_short(row['step_ns'])} unprofiled ({text})  ·  {recorded}"


def main_cause(screen: Screen) -> str:
    """Return the cause of most of the idle time in the recording."""
    causes = screen.rows("idle_cause_totals")
    if not causes:
        return ""
    cause = causes[0]["cause"]
    meaning = f": {CAUSES[cause]}" if cause in CAUSES else ""
    return f"mostly {printable(cause)} while profiling{meaning}"


def _mfu(screen: Screen) -> str:
    result = mean_mfu(screen.data[MFU]) if MFU in screen.data else None
    if result is None:
        return ""
    row = next(row for row in screen.rows(MFU) if row["mfu_pct"] is not None)
    of = f"of {row['peak_flop_per_s'] / 1e12:,.4g} TFLOPS ({row['dtype']})"
    recorded = "" if result.is_of_run else ", while profiling"
    return f"{format_pct(100 * result.share)} % {of}{recorded}"


def _outside(screen: Screen) -> list[Text]:
    """Return a line on busy time outside steps, if it exceeds 1 %."""
    (row,) = screen.rows("step_totals")
    parts = []
    if row["wall_ns"] and row["outside_ns"] - row["queued_ns"] > row["wall_ns"] / 100:
        outside = format_short(row["outside_ns"] - row["queued_ns"])
        parts.append(f"{outside} of work is outside steps")
    if row["wall_ns"] and row["queued_ns"] > row["wall_ns"] / 100:
        queued = format_short(row["queued_ns"])
        parts.append(f"{queued} of work was queued before recording began, and is in no step")
    return [screen.line(" · ".join(parts), "dim")] if parts else []


def timeline(screen: Screen) -> list[Text]:
    """Return one bar per device; no lines for a single device with steps.

    Many devices are shown as groups of similar ranks, largest first, with a bar of means each.
    """
    rows = screen.rows("timeline")
    if len(rows) == 1 and screen.has_steps and not screen.full:
        return _unrecorded_replays(screen)
    if len(rows) > MAX_DEVICES and not screen.full and screen.data.get("rank_groups"):
        rows = screen.rows("rank_groups")
        shown = rows[:MAX_GROUPS]
        labels = [_group_label(row) for row in shown]
        below = [
            printable(row["alike"]) if row["alike"] and row["group_number"] > 1 else ""
            for row in shown
        ]
    else:
        shown = rows if screen.full else rows[:MAX_DEVICES]
        labels = [device_label(row, is_only=len(rows) == 1) for row in shown]
        below = []
    shares = {f"{part.name}_pct": part.short_label.removeprefix("exposed ") for part in PARTS}

    def bars(width: int) -> list[Text]:
        return [
            stacked_bar([_part(part.name, row[f"{part.name}_ns"]) for part in PARTS], width)
            for row in shown
        ]

    legend = _legend({part.name: part.short_label for part in PARTS})
    columns = figures(shown, {"window_ns": "window"} | shares)
    out = screen.block(
        "Timeline", labels, columns, bars=bars, below=below, of=len(rows), legend=legend
    )
    return [*out, *_unrecorded_replays(screen)]


def _unrecorded_replays(screen: Screen) -> list[Text]:
    """Return a line if idle time is unknown, because the file lacks graph replays."""
    rows = screen.rows("health")
    metric = "launches_without_work"
    meaning = next((row["meaning"] for row in rows if row["metric"] == metric), "")
    replays = meaning.partition("; ")[2].partition(": ")[0]
    if "not recorded" not in replays:
        return []
    return [screen.line(f"  {printable(replays)}: idle time is unknown", "yellow")]


def step_of(data: Mapping[str, Result]) -> Row | None:
    """Return the figures of a step in a breakdown; None without steps.

    `recorded_step_ns` is the recorded step; `step_ns`, `low_ns`, `high_ns`, and `basis` describe
    the unprofiled one. `busy_ns`, `other_ns` (work outside steps), `idle_ns`, and their shares
    refer to the unprofiled step if it is known, else to the recorded one.
    """
    totals = data["step_totals"].to_dicts() if "step_totals" in data else []
    if not totals or not totals[0]["step_count"] or totals[0]["mean_span_ns"] is None:
        return None
    names = ("step_ns", "low_ns", "high_ns", "basis", "idle_ns", "idle_pct", "busy_pct")
    other_ns = totals[0]["step_other_ns"] or 0
    result = dict.fromkeys((*names, "other_pct"))
    result |= {
        "recorded_step_ns": totals[0]["mean_span_ns"],
        "busy_ns": totals[0]["step_work_ns"],
        "other_ns": other_ns,
    }
    row = idle_of_step(data)
    if row is None:
        # On CPUs, profiling slows the work itself, so only the recorded busy time is known.
        runs = data["run"].to_dicts() if data.get("run") else []
        if runs and runs[0]["unprofiled_step_ns"]:
            result |= {"step_ns": runs[0]["unprofiled_step_ns"], "basis": "measured"}
        return result
    if row["unprofiled_step_ns"] is None and row.get("low_ns") is None:
        reasons = data["unprofiled"].column("reason") if "unprofiled" in data else []
        reason = next(filter(None, reasons), "estimated by tracekit query unprofiled")
        result |= {"basis": "unknown", "reason": reason}
    else:
        result |= {
            "step_ns": row["unprofiled_step_ns"],
            "low_ns": row["low_ns"],
            "high_ns": row["high_ns"],
            "basis": row["source"] or "estimated",
        }
    length_ns, idle_pct = row["unprofiled_step_ns"], row["idle_pct"]
    if length_ns is None or idle_pct is None:
        length_ns, idle_pct = row["recorded_step_ns"], row["recorded_idle_pct"]
    idle_ns = max(length_ns - row["work_ns"], 0)
    other_pct = 100 * other_ns / length_ns
    other_pct = other_pct if other_pct >= 1 else 0
    busy_pct = 100 - idle_pct - other_pct
    return result | {
        "idle_ns": idle_ns,
        "idle_pct": idle_pct,
        "busy_pct": busy_pct,
        "other_pct": other_pct,
    }


def idle_of_step(data: Mapping[str, Result]) -> Row | None:
    """Return the idle share of a step, recorded and unprofiled; None without steps.

    Analysis `run_idle` has the measured unprofiled step. Otherwise, analysis `unprofiled`, if it
    was run, has an estimate with `idle_low_pct` and `idle_high_pct`.
    """
    rows = data["run_idle"].to_dicts() if "run_idle" in data else []
    if rows and rows[0]["idle_pct"] is not None:
        return rows[0]
    result = unprofiled_step(data["unprofiled"]) if "unprofiled" in data else None
    if result is None or result.work_ns is None or not rows:
        return rows[0] if rows else None
    idle_pct, low_pct, high_pct = (
        100 * max(1 - result.work_ns / ns, 0) if ns else None for ns in result[:3]
    )
    estimate = {"idle_low_pct": low_pct, "idle_high_pct": high_pct, "idle_pct": idle_pct}
    ends = dict(zip(("unprofiled_step_ns", "low_ns", "high_ns"), result[:3], strict=True))
    return rows[0] | estimate | ends


def step_sentence(data: Mapping[str, Result]) -> str | None:
    """Return a sentence with the step time and its idle share; None without steps."""
    row = step_of(data)
    if row is None:
        return None
    idle = "" if row["idle_pct"] is None else f"; idle {format_pct(row['idle_pct'])} %"
    return f"Step {_lengths(row)}{idle}"


def _group_label(row: Row) -> str:
    example = "?" if row["example_rank"] is None else row["example_rank"]
    if row["rank_count"] == 1:
        return f"rank {example} alone"
    return f"{row['rank_count']:,} ranks like rank {example}"


def phases(screen: Screen) -> list[Text]:
    """Return a bar per phase: busy, exposed communication, and idle time.

    Times are per step if steps are marked.
    """
    is_step_of_gpu = screen.has_steps and screen.is_on_gpu
    idles = idles_of_phases(screen.data) if is_step_of_gpu else {}
    rows = [{**row, **idles.get(row["phase"], {})} for row in screen.rows("phase_totals")]
    of = "step_" if screen.has_steps else ""
    busy, idle, comm = f"{of}wall_ns", f"{of}idle_ns", f"{of}exposed_comm_ns"
    is_run_known = bool(idles) and all(row["run_idle_ns"] is not None for row in idles.values())
    first_idle = "run_idle_ns" if is_run_known else idle
    rows = [row | {"all_ns": (row[busy] or 0) + (row.get(first_idle) or 0)} for row in rows]
    shown = sorted(rows, key=lambda row: -row["all_ns"])[:MAX_PHASES]
    shown = [row for row in rows if row in shown and row["all_ns"]]
    longest_ns = max((row["all_ns"] for row in shown), default=0)

    def bars(width: int) -> list[Text]:
        results = []
        for row in shown:
            cells = cells_of(row["all_ns"], longest_ns, width)
            parts = [
                _part("compute", row[busy] - row[comm]),
                _part("exposed_comm", row[comm]),
                _part("idle", row[first_idle]),
            ]
            results.append(stacked_bar(parts, cells).append(" " * (width - cells)))
        return results

    titles = {busy: "busy", idle: "idle"}
    note = []
    if is_step_of_gpu:
        titles[idle] = "profiled idle"
        note = [] if idles else _idle_outside_phases(screen)
        if is_run_known:
            titles = {busy: "busy", "run_idle_ns": "idle", idle: "profiled idle"}
    columns = figures(shown, titles, is_alike=True)
    if not screen.has_steps:
        columns += figures(shown, {"span_pct": "% of window"})
    title, labels = per_step("Phases", screen), [row["phase"] for row in shown]
    comm_label = {"exposed_comm": "comm"} if any(row[comm] for row in shown) else {}
    legend = _legend({"compute": "busy", "idle": "idle"} | comm_label)
    return [
        *screen.block(title, labels, columns, bars=bars, of=len(rows), legend=legend),
        *note,
    ]


def idles_of_phases(data: Mapping[str, Result]) -> dict[str, Row]:
    """Return the recorded and the unprofiled idle time of each phase per step.

    It includes idle time in the first step before the first GPU work. The result is empty for
    several devices, and if the time of a phase is unknown.
    """
    if not data.get("run_phases") or len(data["timeline"]) != 1:
        return {}
    idles: dict[str, Row] = {
        row["phase"]: {
            "run_idle_ns": None if row["run_ns"] is None else row["run_ns"] - row["work_ns"],
            "step_idle_ns": row["recorded_ns"] - row["work_ns"],
        }
        for row in data["run_phases"].to_dicts()
    }
    rows = data["phase_totals"].to_dicts()
    known = {row["phase"] for row in rows if row["step_wall_ns"] or row["step_idle_ns"]}
    return idles if idles.keys() >= known else {}


def _idle_outside_phases(screen: Screen) -> list[Text]:
    """Return a line on the idle time per step that is in no phase, if it exceeds 1 %."""
    (totals,) = screen.rows("step_totals")
    idle_ns = totals["mean_span_ns"] - totals["step_work_ns"] - totals["step_other_ns"]
    idle_ns -= sum(row["step_idle_ns"] for row in screen.rows("phase_totals"))
    if idle_ns <= totals["mean_span_ns"] / 100:
        return []
    where = "before the first kernel, after the last one, or between steps"
    return [screen.line(f"  {format_short(idle_ns)} more idle time: {where}", "dim")]


class _Node(Struct):
    row: Row
    children: list[_Node] = field(default_factory=list)


def modules(screen: Screen) -> list[Text]:
    """Return the largest modules below their parents; equal modules of all layers share a line."""
    every = _flat(_tree(screen.rows("module_totals")))
    title = per_step("Modules", screen)
    if not has_modules(screen.data["module_totals"]):
        roles = screen.data[ROLES].column("role") if ROLES in screen.data else []
        # In other models, only norms have a role.
        if not {"QKV", "Attention", "MLP"}.isdisjoint(roles):
            return _roles(screen)
        return [
            screen.heading(
                "Modules", "none recorded; to record them: profile(..., with_stack=True)"
            )
        ]
    most = MAX_MODULES[screen.has_steps]
    busy = "step_wall_ns" if screen.has_steps else "total_wall_ns"
    by_size = sorted(every, key=lambda item: (-(item[2][busy] or 0), item[1]))
    largest = {id(row) for _, _, row in by_size[:most]}
    shown = [item for item in every if id(item[2]) in largest]
    rows = [row for _, _, row in shown]
    labels = ["  " * depth + printable(label) for label, depth, _ in shown]
    if screen.has_steps:
        shares = {row["module_path"]: row["step_pct"] for row in screen.of_work(rows)}
        rows = [{**row, "step_pct": shares.get(row["module_path"])} for row in rows]
    return _busy(screen, title, labels, rows, "total_wall_ns", len(every))


def _busy(
    screen: Screen, title: Text, labels: Sequence[str], rows: Sequence[Row], total: str, of: int
) -> list[Text]:
    """Return busy time with its share of the work in steps or, without steps, of the window."""
    share, base = "wall_pct", "% of window"
    if screen.has_steps:
        total, share, base = "step_wall_ns", "step_pct", "% of busy"

    def bars(width: int) -> list[Text]:
        return [share_bar(row[share], width) for row in rows]

    columns = figures(rows, {total: "busy", share: base})
    return screen.block(title, labels, columns, bars=bars, of=of)


def _roles(screen: Screen) -> list[Text]:
    """Return the parts of the model, and the inferred share of their time.

    Role RMSNorm, a term of arXiv 2311.03687, covers all norms.
    """
    rows = screen.rows(ROLES)
    if screen.has_steps:
        rows = screen.of_work(rows)
    shown = rows if screen.full else rows[: MAX_MODULES[screen.has_steps]]
    kernel_ns = sum(row["kernel_ns"] for row in rows) or 1
    inferred = 100 * sum(row["inferred_ns"] for row in rows) / kernel_ns
    title = per_step("Parts of the model", screen)
    title.append(f", {format_pct(inferred)} % inferred", style="not bold dim")
    labels = [row["role"].replace("RMSNorm", "Norm") for row in shown]
    return _busy(screen, title, labels, shown, "wall_ns", len(rows))


def _tree(rows: Sequence[Row]) -> list[_Node]:
    """Return the top-level modules with their submodules; parents come before children."""
    top: list[_Node] = []
    nodes: dict[tuple[int, str], _Node] = {}
    for row in rows:
        node = nodes.setdefault((row["depth"], row["module_path"]), _Node(row))
        around = top if row["depth"] == 0 else nodes[row["depth"] - 1, row["parent_path"]].children
        around.append(node)
    return top


def _flat(top: list[_Node]) -> list[tuple[str, int, Row]]:
    """Return label, depth, and row, largest first; chains with equal times share a line."""
    out = []
    # Use an explicit stack, because modules may be nested deeper than the recursion limit.
    waiting = [(node, "", 0) for node in _smallest_first(top)]
    while waiting:
        node, above, depth = waiting.pop()
        while len(node.children) == 1 and not node.row["self_wall_ns"]:
            (node,) = node.children
        path = node.row["module_path"]
        label = path
        if above and label.startswith(above) and label[len(above) :][:1] in ("/", "."):
            label = label[len(above) + 1 :]
        out.append((label, depth, node.row))
        waiting.extend((child, path, depth + 1) for child in _smallest_first(node.children))
    return out


def _smallest_first(nodes: list[_Node]) -> list[_Node]:
    """Return modules sorted for a stack, from which the largest is popped first."""
    by_size = sorted(nodes, key=lambda node: (-node.row["total_wall_ns"], node.row["module_path"]))
    return by_size[::-1]


def idle_causes(screen: Screen) -> list[Text]:
    """Return a bar per cause, largest first, with its op, module, and share of the window."""
    if screen.has_steps and not screen.full:
        return []
    rows = screen.rows("idle_cause_totals")
    shown = rows if screen.full else rows[:MAX_CAUSES]

    def bars(width: int) -> list[Text]:
        return [
            share_bar(row["idle_pct"], width, _CAUSE_STYLES.get(row["cause"], "")) for row in shown
        ]

    return screen.block(
        "Idle causes",
        [row["cause"] for row in shown],
        figures(shown, {"idle_ns": "idle", "idle_pct": "% of window", "gap_count": "gaps"}),
        bars=bars,
        after=[_place(row["top_op"], row["top_module"], row["top_python"]) for row in shown],
        of=len(rows),
    )


def _place(op: str | None, module: str | None, python: str | None) -> str:
    """Return the op and the module's own name; without an op, the Python function if known."""
    if python and not op:
        return printable(python.rsplit("/", 1)[-1])
    name = module.rsplit("/", 1)[-1] if module else None
    return " in ".join(printable(part) for part in (op, name) if part)


def communication(screen: Screen) -> list[Text]:
    """Return one line per class and group, longest first.

    Bandwidths cover the collectives with known message size. Bus bandwidth is a dash unless all
    group sizes are known. On a CPU, the last line explains time and bandwidth.
    """
    if screen.full:
        out = [screen.heading("Communication"), *screen.table("communication")]
    else:
        rows = screen.rows("communication_totals")
        shown = rows[:MAX_COLLECTIVES]
        out = screen.block(
            Text("Communication", "bold").append(", total" * screen.has_steps, "not bold dim"),
            [_collective(row) for row in shown],
            figures(
                shown,
                {
                    "call_count": "calls",
                    "kernel_ns": "time",
                    "wall_ns": "exposed",
                    "overlapped_pct": "hidden, % of time",
                    "message_bytes": "size",
                    "bus_bytes_per_s": "bus bandwidth",
                },
            ),
            after=[" · ".join(map(printable, row["reasons"] or ())) for row in shown],
            of=len(rows),
        )
    if "cpu" in screen.data["communication"].column("device"):
        out += screen.wrapped(_CPU_NOTE)
    return out


def _collective(row: Row) -> str:
    """Return the name of the class, and of the group if it is recorded."""
    group = "" if row["pg_name"] is None else f" (group {row['pg_name']})"
    return printable(row["class"].removeprefix("comm_") + group)


def kernels(screen: Screen) -> list[Text]:
    """Return the top kernels, each once, with the figures of the device where it took longest.

    The analysis lists the top kernels of every device. Sums over these lists could be incomplete,
    but the maximum is exact.
    """
    if screen.has_steps:
        return []
    longest: dict[tuple[str, str], dict[str, Any]] = {}
    rows = screen.rows("kernels")
    for row in sorted(rows, key=lambda row: -row["kernel_ns"]):
        longest.setdefault((row["name"], row["class"]), row)
    shown = list(longest.values())[:MAX_KERNELS]
    columns = figures(
        shown,
        {
            "kernel_ns": "time",
            "wall_pct": "% of window",
            "kernel_count": "count",
            "mean_ns": "mean",
        },
    )
    if len({(row["rank"], row["device"]) for row in rows}) > 1:
        columns += figures(
            [row | {"rank": rank_text(row["rank"])} for row in shown], {"rank": "busiest device"}
        )
    return screen.block("Top kernels", [row["name"] for row in shown], columns)


def memcpy(screen: Screen) -> list[Text]:
    """Return one line per direction; bytes and bandwidth cover copies with known bytes."""
    if screen.has_steps:
        return []
    rows = screen.rows("memcpy_totals")
    titles = {"kernel_ns": "time", "copy_count": "count", "bytes": "size"}
    titles["bandwidth_bytes_per_s"] = "bandwidth"
    return screen.block(
        "Copies",
        [printable(row["direction"].removeprefix("memcpy_")) for row in rows],
        figures(rows, titles),
        after=[
            f"bytes known of {row['sized_count']:,}"
            if 0 < row["sized_count"] < row["copy_count"]
            else ""
            for row in rows
        ],
    )
