"""The first screen of a report: tiles, a bar that divides a step by phase, and suggestions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from tracekit.analysis.breakdown import ADVICE, MFU, mean_mfu
from tracekit.analysis.result import Result
from tracekit.palette import KIND, PHASE, SERIES
from tracekit.prediction.advising import STEP, gain_text
from tracekit.prediction.predicting import ESTIMATE, MEASURED, RECORDING
from tracekit.render._text import printable
from tracekit.render.sections._layout import Screen
from tracekit.render.sections.device_time import idles_of_phases, main_cause, step_of
from tracekit.units import format_bytes, format_interval, format_pct, format_short

_MAX_ADVICE = 3
_BASES = {
    MEASURED: "unprofiled, measured",
    ESTIMATE: "unprofiled, estimated",
    RECORDING: "recorded",
}
_WIDTH, _HEIGHT = 1000, 26


def tiles(results: Mapping[str, Result]) -> Iterator[str]:
    """Yield up to six tiles: step, busy, idle, exposed communication, MFU, and peak memory."""
    screen = Screen(results, 200)
    step = step_of(results) or {}
    totals = screen.rows("timeline")
    window_ns = sum(row["window_ns"] for row in totals) or 1
    result: list[tuple[str, str, str]] = []
    on_gpu = {"busy": "GPU busy", "idle": "GPU idle"}
    words = on_gpu if screen.is_on_gpu else {"busy": "Busy", "idle": "Idle"}
    if step:
        result.append(_step(step))
        pct = step["idle_pct"]
        busy = "while profiling" if pct is None else f"{format_pct(step['busy_pct'])} % of the step"
        if step["other_pct"]:
            busy += f"; work outside steps {format_pct(step['other_pct'])} %"
        result.append((words["busy"], format_short(step["busy_ns"]), busy))
        if pct is not None:
            cause = main_cause(screen) if pct >= 1 else ""
            idle = f"{format_pct(pct)} % of the step; {cause}".removesuffix("; ")
            result.append((words["idle"], format_short(step["idle_ns"]), idle))
        comm_ns = sum(row["step_exposed_comm_ns"] or 0 for row in screen.rows("phase_totals"))
        result.append(("Exposed communication", format_short(comm_ns), "while profiling"))
    elif totals:
        for name, title in (
            ("busy", "Busy"),
            ("idle", "Idle"),
            ("exposed_comm", "Exposed communication"),
        ):
            amount_ns = sum(row[f"{name}_ns"] for row in totals)
            share = f"{format_pct(100 * amount_ns / window_ns)} % of the recording"
            result.append((title, format_short(amount_ns), share))
    mfu = mean_mfu(results[MFU]) if MFU in results else None
    if mfu is not None:
        of = "of an unprofiled step" if mfu.is_of_run else "while profiling"
        result.append(("MFU", f"{format_pct(100 * mfu.share)} %", of))
    for row in screen.rows("run")[:1]:
        for name, of in (
            ("peak_device_bytes", "allocated on the device"),
            ("peak_host_bytes", "of the host"),
        ):
            if row[name]:
                result.append(("Peak memory", format_bytes(row[name]), of))
                break
    if result:
        yield '<dl class="tiles">'
        for title, value, detail in result:
            yield f"<div><dt>{title}</dt><dd>{escape(value)}</dd><dd>{escape(detail)}</dd></div>"
        yield "</dl>"


def _step(step: Mapping[str, Any]) -> tuple[str, str, str]:
    recorded = format_short(step["recorded_step_ns"])
    if step["step_ns"] is None:
        return "Step", recorded, "while profiling"
    basis = step["basis"]
    if step["low_ns"] is not None:
        basis += f", {format_interval(step['low_ns'], step['high_ns'])}"
    return "Step, unprofiled", format_short(step["step_ns"]), f"{basis}; {recorded} while profiling"


def step_bar(results: Mapping[str, Result]) -> Iterator[str]:
    """Yield a bar of the step with busy and idle time by phase.

    If it is the unprofiled step, a gray bar of the recorded step follows.
    """
    step = step_of(results)
    rows = results["phase_totals"].to_dicts() if "phase_totals" in results else []
    if step is None or not rows:
        return
    idles = idles_of_phases(results)
    is_of_run = len(idles) > 0 and all(row["run_idle_ns"] is not None for row in idles.values())
    idle = "run_idle_ns" if is_of_run else "step_idle_ns"
    parts = []
    for place, row in enumerate(rows):
        idle_ns = idles.get(row["phase"], row).get(idle) or 0
        colour = PHASE.get(row["phase"], SERIES[place % len(SERIES)])
        parts.append((row["phase"], row["step_wall_ns"] or 0, idle_ns, colour.light[1:]))
    shown_ns = sum(busy + idle for _, busy, idle, _ in parts) or 1
    whole_ns = max(shown_ns, step["recorded_step_ns"])
    subject = "Unprofiled step" if is_of_run else "Step while profiling"
    yield f"<figure><figcaption>{subject} by phase: busy, and idle in gray</figcaption>"
    box = f"0 0 {_WIDTH} {2 * _HEIGHT + 8 if is_of_run else _HEIGHT}"
    yield f'<svg viewBox="{box}" width="100%" role="img" aria-label="{subject}">'
    at = 0.0
    for name, busy_ns, idle_ns, hue in parts:
        for ns, fill, text in (
            (busy_ns, f"var(--c-{hue})", "busy"),
            (idle_ns, f"var(--c-{KIND['idle'].light[1:]})", "idle"),
        ):
            width = _WIDTH * ns / whole_ns
            title = escape(f"{printable(name)}, {text}: {format_short(ns)} per step")
            yield (
                f'<rect class="edged" x="{at:.2f}" width="{width:.2f}" height="{_HEIGHT}" '
                f'fill="{fill}"><title>{title}</title></rect>'
            )
            at += width
    if is_of_run:
        width = _WIDTH * step["recorded_step_ns"] / whole_ns
        caption = f"while profiling {format_short(step['recorded_step_ns'])}"
        yield f'<rect y="{_HEIGHT + 6}" width="{width:.2f}" height="8" fill="var(--line)"></rect>'
        yield f'<text x="0" y="{2 * _HEIGHT + 6}">{caption}</text>'
    hues = {name: hue for name, busy_ns, _, hue in parts if busy_ns}
    yield '</svg><ul class="legend">'
    for name, hue in hues.items():
        yield '<li><svg class="swatch" width="12" height="12">'
        yield f'<rect width="12" height="12" fill="var(--c-{hue})"></rect></svg>'
        yield f"{escape(printable(name))}</li>"
    yield "</ul></figure>"


def badge(results: Mapping[str, Result]) -> Iterator[str]:
    """Yield a line about data quality, with a link to its section."""
    from tracekit.render.sections import SECTIONS

    if "health" in results:
        (line,) = SECTIONS["health"].lines(results, 110)
        text = escape(line.plain.replace(" (tracekit query health)", ""))
        yield f'<p class="badge"><a href="#health">{text}</a></p>'


def suggestions(results: Mapping[str, Result], command: str) -> Iterator[str]:
    """Yield suggested changes, best first, with a bar for each gain."""
    yield '<section id="advice" aria-labelledby="advice-title">'
    yield '<h2 id="advice-title">Suggestions</h2>'
    rows = results[ADVICE].to_dicts()
    if rows:
        yield "<ol>"
        for row in rows[:_MAX_ADVICE]:
            gain = escape(gain_text(row))
            suggestion = escape(printable(f"{row['where']}. {row['remedy']}"))
            meter = f'<meter max="100" value="{max(row["gain_pct"], 0):.1f}"></meter>'
            yield f"<li>{meter} <b>{gain}</b> {suggestion}</li>"
        yield "</ol>"
    else:
        yield "<p>No change is predicted to gain over 1 %.</p>"
    for row in [row for row in rows if row["figure"] == STEP][:1]:
        unit = "step" if step_of(results) else "run"
        basis = _BASES[row["base"]]
        length = format_short(row["before_step_ns"])
        yield f'<p class="note">Gains are per {unit} of {length} ({basis}).</p>'
    yield f'<p class="note">Evidence and assumptions: <code>{escape(command)}</code></p>'
    yield "</section>"
