"""What the devices did with their time: by kind, phase, module, class, cause, kernel and step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracekit.analysis.breakdown import ROLES, has_modules, unprofiled_step
from tracekit.palette import KIND
from tracekit.render._bars import Part, cells_of, share_bar, stacked_bar
from tracekit.render._text import cell_width, printable, shorten, shortened
from tracekit.render.sections._layout import (
    Row,
    Screen,
    aligned,
    bar_lines,
    columns,
    device_label,
    fitted,
    known,
    more,
    ms_column,
    pct_text,
    rank_text,
    step_column,
    times_text,
)
from tracekit.time_parts import PARTS, TimePart
from tracekit.units import (
    format_bytes,
    format_bytes_per_s,
    format_duration,
    format_ms,
    format_pct,
    ms_decimals,
)

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

MAX_DEVICES = 16
MAX_GROUPS = 6
# Up to so many devices there is room for a second line with the milliseconds.
_MAX_WITH_MS = 4
MAX_MODULES = 10
MAX_CAUSES = 5
MAX_COLLECTIVES = 5
MAX_KERNELS = 5

_CPU_NOTE = "on a CPU, time counts both the call and the backend's span; bandwidth is of the span"

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


def timeline(screen: Screen) -> list[Text]:
    """Return a legend and one bar per device; with few devices also a line of shares in ms.

    Of many devices, a bar of means for each group of ranks that behave alike, the largest first.
    """
    rows = screen.rows("timeline")
    has_ms = False
    below: list[Text | None]
    if len(rows) > MAX_DEVICES and not screen.full and screen.data.get("rank_groups"):
        rows = screen.rows("rank_groups")
        shown = rows[:MAX_GROUPS]
        labels = [_group_label(row) for row in shown]
        below = [
            screen.line(f"    {printable(row['alike'])}", "dim")
            if row["alike"] and row["group_number"] > 1
            else None
            for row in shown
        ]
        left = more(len(rows) - len(shown), "group of ranks", "groups of ranks")
    else:
        shown = rows if screen.full else rows[:MAX_DEVICES]
        labels = [device_label(row) for row in shown]
        in_ms = [_in_ms(row) for row in shown]
        has_ms = len(rows) <= _MAX_WITH_MS and max(map(len, in_ms)) <= screen.width
        below = [line if has_ms else None for line in in_ms]
        left = more(len(rows) - len(shown), "device")
    shares = [] if has_ms else [_pcts(share, shown) for share in PARTS]
    titles, *figures = aligned([_windows(shown), *shares])

    def bars(width: int) -> list[Text]:
        return [
            stacked_bar(
                [Part(row[f"{s.name}_ns"], s.glyph, s.colour.terminal) for s in PARTS], width
            )
            for row in shown
        ]

    lines = bar_lines(fitted(labels), bars, figures, screen.width, least=4)
    legend = screen.heading("Timeline")
    for share in PARTS:
        legend.append("   ").append(share.glyph, style=share.colour.terminal)
        legend.append(f" {share.short_label}")
    out = [legend]
    if not has_ms:
        out.append(Text(" " * (lines[0].cell_len - len(titles)) + titles, style="dim"))
    for line, under in zip(lines, below, strict=True):
        out += [line] if under is None else [line, under]
    return out + left + _unrecorded_replays(screen)


def _unrecorded_replays(screen: Screen) -> list[Text]:
    """Return a line where replays of graphs are not in the file: the shares are of the others."""
    rows = screen.rows("health") if "health" in screen.data else []
    metric = "launches_without_work"
    said = next((row["meaning"] for row in rows if row["metric"] == metric), "")
    replays = said.partition("; ")[2].partition(": ")[0]
    if "not recorded" not in replays:
        return []
    return [screen.line(f"  {printable(replays)}: idle time is unknown", "yellow")]


_LEAST_IDLE_PCT = 10.0
"""Less idle time of a recording is not worth a word on the profiler."""


def idle_of_step(data: Mapping[str, Result]) -> Row | None:
    """Return how much of a step is idle, recorded and without the profiler; None without steps.

    A step without the profiler is the measured one of `run_idle`, else the estimate of
    `unprofiled`, where that was asked: then with `idle_low_pct` and `idle_high_pct`.
    """
    rows = data["run_idle"].to_dicts() if "run_idle" in data else []
    if rows and rows[0]["idle_pct"] is not None:
        return rows[0]
    found = unprofiled_step(data["unprofiled"]) if "unprofiled" in data else None
    if found is None or found.work_ns is None or not rows:
        return rows[0] if rows else None
    idle_pct, low_pct, high_pct = (
        100 * max(1 - found.work_ns / ns, 0) if ns else None for ns in found[:3]
    )
    estimate = {"idle_low_pct": low_pct, "idle_high_pct": high_pct}
    return rows[0] | estimate | {"plain_step_ns": found.step_ns, "idle_pct": idle_pct}


def idle_sentence(data: Mapping[str, Result]) -> str | None:
    """Return how much of a step is idle as a sentence; None where next to nothing is to be said."""
    row = idle_of_step(data)
    if row is None:
        return None
    said = f"Idle {format_pct(row['recorded_idle_pct'])} % of a recorded step"
    if row["idle_pct"] is not None or row.get("idle_low_pct") is not None:
        return f"{said}, {_idle_of_run(row)} without the profiler"
    if row["recorded_idle_pct"] < _LEAST_IDLE_PCT:
        return None
    return f"{said}, in part the profiler's: query unprofiled"


def _idle_of_run(row: Row) -> str:
    idle = None if row["idle_pct"] is None else f"{format_pct(row['idle_pct'])} %"
    if row.get("idle_low_pct") is None:
        return idle or "unknown"
    interval = f"{format_pct(row['idle_low_pct'])} to {format_pct(row['idle_high_pct'])}"
    return f"about {idle} ({interval})" if idle else f"{interval} %"


def run_idle(screen: Screen) -> list[Text]:
    """Return how much of a step is idle: bars of the recording and the run, or a hint in words."""
    row = idle_of_step(screen.data)
    if row is None or row["idle_pct"] is None:
        text = idle_sentence(screen.data)
        return [] if text is None else [screen.line(text)]
    steps_ns = [row["recorded_step_ns"], row["plain_step_ns"]]
    work = next(share for share in PARTS if share.name == "compute")
    idle = next(share for share in PARTS if share.name == "idle")

    def bars(width: int) -> list[Text]:
        drawn = []
        for step_ns in steps_ns:
            work_ns = min(row["work_ns"], step_ns)
            parts = [
                Part(work_ns, work.glyph, work.colour.terminal),
                Part(step_ns - work_ns, idle.glyph, idle.colour.terminal),
            ]
            cells = max(cells_of(step_ns, max(steps_ns), width), 1)
            drawn.append(stacked_bar(parts, cells).append(" " * (width - cells)))
        return drawn

    decimals = ms_decimals(steps_ns)
    figures = aligned(
        [
            [f"{format_ms(step_ns, decimals)} ms" for step_ns in steps_ns],
            [f"{format_pct(row['recorded_idle_pct'])} % idle", f"{_idle_of_run(row)} idle"],
        ]
    )
    labels = fitted(["recorded", "without the profiler"])
    heading = screen.heading("Step", "█ device works   ░ idle; mean of steps and devices")
    return [heading, *bar_lines(labels, bars, figures, screen.width, least=4)]


def _group_label(row: Row) -> str:
    example = "?" if row["example_rank"] is None else row["example_rank"]
    if row["rank_count"] == 1:
        return f"rank {example} alone"
    return f"{row['rank_count']:,} alike, as rank {example}"


def _windows(rows: Sequence[Row]) -> list[str]:
    return ["window", *ms_column(rows, "window_ns")]


def _pcts(share: TimePart, rows: Sequence[Row]) -> list[str]:
    title = share.short_label.removeprefix("exposed ")
    return [title, *(pct_text(row[f"{share.name}_pct"]) for row in rows)]


def _in_ms(row: Row) -> Text:
    decimals = ms_decimals(row[f"{share.name}_ns"] for share in PARTS)
    line = Text(" ")
    for share in PARTS:
        line.append("   ").append(pct_text(row[f"{share.name}_pct"]), style="bold")
        line.append(f" {share.glyph} ", style=share.colour.terminal)
        line.append(f"{format_ms(row[f'{share.name}_ns'], decimals)} ms")
    return line


def phases(screen: Screen) -> list[Text]:
    """Return one bar per phase: busy, exposed communication, and idle time before its work."""
    rows = screen.rows("phase_totals")
    decimals = ms_decimals(
        row[column] for row in rows for column in ("wall_ns", "idle_ns", "exposed_comm_ns")
    )
    figures = aligned(
        [
            *columns(
                rows,
                span_pct=pct_text,
                wall_ns=lambda time: f"{format_ms(time, decimals)} ms busy",
            ),
            *step_column(rows),
            *columns(rows, idle_ns=lambda time: f"{format_ms(time, decimals)} idle"),
        ]
    )
    longest_ns = max(row["span_ns"] for row in rows)

    def bars(width: int) -> list[Text]:
        found = []
        for row in rows:
            cells = cells_of(row["span_ns"], longest_ns, width)
            parts = [
                Part(row["covered_ns"], "█", KIND["compute"].terminal),
                Part(row["exposed_comm_ns"], "▓", KIND["comm"].terminal),
                Part(row["idle_ns"], "░", KIND["idle"].terminal),
            ]
            found.append(stacked_bar(parts, cells).append(" " * (width - cells)))
        return found

    labels = fitted([printable(row["phase"]) for row in rows])
    return [
        screen.heading("Phases"),
        *bar_lines(labels, bars, figures, screen.width, least=6, most=32),
    ]


@dataclass(slots=True)
class _Node:
    row: Row
    children: list[_Node] = field(default_factory=list)


def modules(screen: Screen) -> list[Text]:
    """Return the largest modules under their parents; modules of all layers are one line."""
    every = _flat(_tree(screen.rows("module_totals")))
    by_size = sorted(every, key=lambda item: (-item[2]["total_wall_ns"], item[1]))
    largest = {id(row) for _, _, row in by_size[:MAX_MODULES]}
    shown = [item for item in every if id(item[2]) in largest]
    rows = [row for _, _, row in shown]
    own = [f"{pct_text(row['self_pct'])} self" if row["self_wall_ns"] else "" for row in rows]
    totals = ms_column(rows, "total_wall_ns")
    figures = aligned([*columns(rows, wall_pct=pct_text), totals, own, *step_column(rows)])
    out = [screen.heading("Modules")]
    if not has_modules(screen.data["module_totals"]):
        has_them = "profile(..., with_stack=True) or tracekit collect has them"
        out.append(screen.line(f"  none recorded: {has_them}", "dim"))
        roles = screen.data[ROLES].column("role") if ROLES in screen.data else []
        # Of other models, norms alone have a role.
        if not {"QKV", "Attention", "MLP"}.isdisjoint(roles):
            return [*out, *_roles(screen)]
    for (label, depth, _), text in zip(shown, figures, strict=True):
        room = max(screen.width - len(text) - 4, 1)
        out.append(Text(f"  {text}  {shorten('  ' * depth + printable(label), room)}"))
    return out + more(len(every) - len(shown), "module")


def _roles(screen: Screen) -> list[Text]:
    """Return the parts of a decoder, and how much of their time rests on an inference."""
    rows = screen.rows(ROLES)
    shown = rows if screen.full else rows[:MAX_MODULES]
    kernel_ns = sum(row["kernel_ns"] for row in rows) or 1
    inferred = pct_text(100 * sum(row["inferred_ns"] for row in rows) / kernel_ns)
    told = f"parts by names and order of kernels and ops, {inferred} of the time inferred:"
    totals = ms_column(rows, "wall_ns", shown)
    figures = aligned([*columns(shown, wall_pct=pct_text), totals, *step_column(rows, shown)])
    lines = [
        Text(f"  {text}  {printable(row['role'])}")
        for text, row in zip(figures, shown, strict=True)
    ]
    layers = screen.line("  by layer: tracekit query layers TRACE", "dim")
    return [screen.line(f"  {told}", "dim"), *lines, *more(len(rows) - len(shown), "role"), layers]


def _tree(rows: Sequence[Row]) -> list[_Node]:
    """Return the modules at the top, each with those inside of it; parents come before children."""
    top: list[_Node] = []
    nodes: dict[tuple[int, str], _Node] = {}
    for row in rows:
        node = nodes.setdefault((row["depth"], row["module_path"]), _Node(row))
        around = top if row["depth"] == 0 else nodes[row["depth"] - 1, row["parent_path"]].children
        around.append(node)
    return top


def _flat(top: list[_Node]) -> list[tuple[str, int, Row]]:
    """Return label, depth and row, the largest first; a chain that adds nothing is one line."""
    out = []
    # A stack of our own: modules may be nested deeper than Python calls may be.
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
    """Return modules so that a stack gives the largest first."""
    by_size = sorted(nodes, key=lambda node: (-node.row["total_wall_ns"], node.row["module_path"]))
    return by_size[::-1]


def idle_causes(screen: Screen) -> list[Text]:
    """Return one bar per cause, the largest first, with its op and module; shares of the window."""
    rows = screen.rows("idle_cause_totals")
    shown = rows if screen.full else rows[:MAX_CAUSES]
    figures = aligned(
        [
            *columns(shown, idle_pct=pct_text),
            ms_column(rows, "idle_ns", shown),
            *columns(shown, gap_count=times_text),
        ]
    )

    def bars(width: int) -> list[Text]:
        return [
            share_bar(row["idle_pct"], width, _CAUSE_STYLES.get(row["cause"], "")) for row in shown
        ]

    labels = fitted([printable(row["cause"]) for row in shown])
    out = [screen.heading("Idle causes", "share of the window, gaps, where most of it is")]
    lines = bar_lines(labels, bars, figures, screen.width, least=10, most=16)
    for row, line in zip(shown, lines, strict=True):
        place = _place(row["top_op"], row["top_module"], row["top_python"])
        room = screen.width - line.cell_len - 2
        if place and room >= 12:
            line.append(f"  {shorten(place, room)}", style="dim")
    return [*out, *lines, *more(len(rows) - len(shown), "cause")]


def _place(op: str | None, module: str | None, python: str | None) -> str:
    """Return the Python function, or an op if there is one and the module's own name.

    Of a path, its end says most.
    """
    if python and not op:
        return printable(python.rsplit("/", 1)[-1])
    name = module.rsplit("/", 1)[-1] if module else None
    return " in ".join(printable(part) for part in (op, name) if part)


def communication(screen: Screen) -> list[Text]:
    """Return one line per class and group, the longest first; shares are of the window.

    Bandwidths are of the collectives whose message size is known; bus bandwidth is a dash unless
    the size of every group is. On a CPU a last line tells what time and bandwidth are of.
    """
    if screen.full:
        out = [screen.heading("Communication"), *screen.table("communication")]
    else:
        out = _collectives(screen)
    if "cpu" in screen.data["communication"].column("device"):
        out.append(screen.line(f"  {_CPU_NOTE}", "dim"))
    return out


def _collectives(screen: Screen) -> list[Text]:
    rows = screen.rows("communication_totals")
    shown = rows[:MAX_COLLECTIVES]
    labels = fitted([_collective(row) for row in shown], 32)
    figures = [
        *columns(shown, call_count=times_text),
        ms_column(rows, "kernel_ns", shown),
        *columns(
            shown,
            wall_pct=pct_text,
            overlapped_pct=pct_text,
            message_bytes=known(format_bytes),
            algorithm_bytes_per_s=known(format_bytes_per_s),
            bus_bytes_per_s=known(format_bytes_per_s),
        ),
    ]
    bandwidths = "bandwidth, bus"
    if cell_width(labels[0]) + len(aligned(figures)[0]) + 4 > screen.width:
        del figures[-2]
        bandwidths = "bus bandwidth"
    note = f"count, time, exposed of the window, hidden, bytes, {bandwidths}"
    out = [screen.heading("Communication", note)]
    for row, label, text in zip(shown, labels, aligned(figures), strict=True):
        line = Text(f"  {label}  {text}")
        room = screen.width - line.cell_len - 2
        if row["reasons"] and room >= len("its call"):
            reasons = " · ".join(map(printable, row["reasons"]))
            line.append("  " + shorten(reasons, room), style="dim")
        out.append(line)
    return out + more(len(rows) - len(shown), "kind")


def _collective(row: Row) -> str:
    """Return the name of the class and, where the calls name it, of the group."""
    group = "" if row["pg_name"] is None else f" (group {row['pg_name']})"
    return printable(row["class"].removeprefix("comm_") + group)


def kernels(screen: Screen) -> list[Text]:
    """Return the top kernels, each once, with the figures of the device on which it took longest.

    The analysis lists the top of every device. Sums over devices of what those lists hold would
    leave out kernels that are on top of one device only; the longest of each is exact.
    """
    longest: dict[tuple[str, str], dict[str, Any]] = {}
    rows = screen.rows("kernels")
    for row in sorted(rows, key=lambda row: -row["kernel_ns"]):
        longest.setdefault((row["name"], row["class"]), row)
    shown = list(longest.values())[:MAX_KERNELS]
    is_one_device = len({(row["rank"], row["device"]) for row in rows}) == 1
    figures = aligned(
        [
            ms_column(shown, "kernel_ns"),
            *columns(shown, wall_pct=pct_text, kernel_count=times_text, mean_ns=format_duration),
            *([] if is_one_device else columns(shown, rank=rank_text)),
        ]
    )
    sums = "time" if is_one_device else "time on its busiest device"
    note = f"{sums}, wall share, count, mean"
    room = screen.width - 4 - len(figures[0])
    names = shortened([printable(row["name"]) for row in shown], room)
    return [
        screen.heading("Top kernels", note),
        *(Text(f"  {text}  {name}") for text, name in zip(figures, names, strict=True)),
    ]


def steps(screen: Screen) -> list[Text]:
    """Return count, mean, shortest and longest step, and the device work outside of steps."""
    (row,) = screen.rows("step_totals")
    parts = []
    if row["step_count"]:
        ranks = row["rank_count"]
        parts.append(f"{row['step_count']:,}" + (f" on {ranks:,} ranks" if ranks > 1 else ""))
        if row["step_count"] == 1:
            parts.append(format_duration(row["max_span_ns"]))
        else:
            parts.append(f"mean {format_duration(row['mean_span_ns'])}")
            parts.append(f"min {format_duration(row['min_span_ns'])}")
            parts.append(f"max {format_duration(row['max_span_ns'])}")
    if outside_ns := row["outside_ns"] - row["queued_ns"]:
        share = pct_text(100 * outside_ns / row["wall_ns"])
        parts.append(f"{share} of busy time outside steps")
    text = " · ".join(parts)
    out = [screen.ended(screen.heading("Steps"), text)]
    said = []
    if row["step_work_ns"]:
        said.append(f"device work {format_duration(round(row['step_work_ns']))} a step")
    if row["queued_ns"]:
        queued = format_duration(row["queued_ns"])
        said.append(f"{queued} more queued before recording began, in no step")
    if said:
        out.append(screen.line(f"  {' · '.join(said)}"))
    return out


def memcpy(screen: Screen) -> list[Text]:
    """Return one line per direction; bytes and bandwidth are of copies whose bytes are known."""
    rows = screen.rows("memcpy_totals")
    figures = aligned(
        columns(
            rows,
            kernel_ns=format_duration,
            copy_count=times_text,
            bytes=known(format_bytes),
            bandwidth_bytes_per_s=known(format_bytes_per_s),
        )
    )
    labels = fitted([printable(row["direction"].removeprefix("memcpy_")) for row in rows], 20)
    note = "sum of durations, count, bytes, bandwidth (GB = 1e9 bytes)"
    out = [screen.heading("Copies", note)]
    for label, text, row in zip(labels, figures, rows, strict=True):
        line = Text(f"  {label}  {text}")
        if 0 < row["sized_count"] < row["copy_count"]:
            known_of = f"  (bytes known of {row['sized_count']:,})"
            line.append(shorten(known_of, screen.width - line.cell_len), style="dim")
        out.append(line)
    return out
