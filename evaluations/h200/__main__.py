"""`make truth`: compares figures of traces with CUDA event times of the same steps.

    make truth ARGS="[--traces FOLDER] [--out FILE]"

FOLDER has traces and `truth.jsonl` with a line per trace. `profiled_event_ns` has CUDA event times
of sections of the recorded steps, and `wall_step_ms` the time of an unprofiled step. Writes the
tables of the manual's page.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import made_parts

import tracekit
from tracekit.prediction.predicting import KEEPS_WORK

REPO = Path(__file__).resolve().parents[2]
PAGE = REPO / "docs" / "explanation" / "evidence.md"
SECTIONS = ("data", "forward", "backward", "optimizer", "prefill", "decode")
MIN_SHARE = 0.03
"""Sections with a smaller share of a step are not compared, because events take microseconds."""

# Work launched in steps and idle time of the steps, by the phase of a section.
BY_PHASE = """
SELECT if(phase = 'recompute', 'backward', phase) AS section, sum(wall_ns + idle_ns)::DOUBLE AS ns
FROM work WHERE step IS NOT NULL GROUP BY ALL
"""

Truth = dict[str, Any]
NO_ESTIMATE = (
    *("work_ns", "unprofiled_step_ns", "low_ns", "high_ns", "recorded_idle_pct", "idle_pct"),
)


def truths(folder: Path) -> Iterator[tuple[Path, Truth]]:
    """Yield each existing trace with its measurements."""
    for line in (folder / "truth.jsonl").read_text("utf-8").splitlines():
        truth = json.loads(line)
        path = folder / f"{truth['name']}.json.gz"
        if path.exists() and truth["profiled_event_ns"]:
            yield path, truth


def error_pct(result: float, right: float) -> float:
    """Return the error of a figure in percent of the correct value."""
    return 100 * (result - right) / right


def compared(trace: tracekit.Trace, truth: Truth) -> dict[str, tuple[float, float]]:
    """Return ms per step of the step and its sections, from CUDA events and from tracekit."""
    events = {
        name: statistics.fmean(times) / 1e6 for name, times in truth["profiled_event_ns"].items()
    }
    (total,) = trace.query("step_totals").to_dicts()
    pairs = {"step": (events["step"], total["mean_span_ns"] / 1e6)}
    by_phase = dict(trace.sql(BY_PHASE).rows)
    for section in SECTIONS:
        if events.get(section, 0) >= MIN_SHARE * events["step"]:
            result = by_phase.get(section, 0.0) / total["step_count"] / 1e6
            pairs[section] = events[section], result
    return pairs


def cell(pairs: dict[str, tuple[float, float]], section: str) -> str:
    """Return correct and reported ms with the error."""
    if section not in pairs:
        return ""
    right, result = pairs[section]
    return f"{right:.2f} → {result:.2f} ({error_pct(result, right):+.1f} %)"


def times_table(folder: Path) -> str:
    """Return steps and phases compared with CUDA events, and median errors."""
    rows: list[tuple[object, ...]] = []
    steps, sections = [], []
    for path, truth in truths(folder):
        with tracekit.open(path, cache=False) as trace:
            pairs = compared(trace, truth)
        errors = {name: abs(error_pct(one, right)) for name, (right, one) in pairs.items()}
        steps.append(errors.pop("step"))
        sections += errors.values()
        rows.append((f"`{truth['name']}`", *(cell(pairs, name) for name in ("step", *SECTIONS))))
    heads = ("recording", "step, ms", *SECTIONS)
    return (
        f"{made_parts.table(heads, rows)}\n"
        f"The median error of steps is {statistics.median(steps):.2f} %, and the largest is "
        f"{max(steps):.1f} %. The median error of the {len(sections)} sections is "
        f"{statistics.median(sections):.1f} %; {sum(error <= 5 for error in sections)} of them are "
        "off by 5 % at most."
    )


def roles_table(folder: Path) -> str:
    """Return roles of one loop, derived from modules, and (without them) from shapes and order."""
    sides = []
    for name in ("llama_stack", "llama_base"):
        with tracekit.open(folder / f"{name}.json.gz", cache=False) as trace:
            rows = trace.query("role_steps").to_dicts()
        sides.append({(row["phase"], row["role"]): row["step_wall_ns"] / 1e6 for row in rows})
    named, silent = sides
    lines = [
        (phase, role, f"{named[phase, role]:.3f}", f"{silent[phase, role]:.3f}")
        for phase, role in named
        if (phase, role) in silent and phase in ("forward", "backward") and role[0] != "("
    ]
    return made_parts.table(("phase", "role", "with modules, ms", "without, ms"), lines)


def faults_of(advice: Any, work_ns: float, plain_ns: float) -> list[str]:
    """Return statements of a suggestion that the unprofiled step contradicts."""
    result = advice.prediction
    low_pct, high_pct = result.range_pct
    before_ns, gain_pct = result.before_step_ns, result.gain_pct
    is_of_host = {change.split()[0] for change in advice.candidate.changes} <= KEEPS_WORK
    faults = {
        "percent and ms differ": abs(result.gain_ns - gain_pct / 100 * before_ns)
        > max(1_000, 0.005 * before_ns),
        "gain outside its interval": not low_pct - 0.05 <= gain_pct <= high_pct + 0.05,
        "gain exceeds a step": gain_pct >= 100,
        "gain exceeds the idle time": is_of_host
        and gain_pct / 100 * plain_ns > max(plain_ns - work_ns, 0) + 0.02 * plain_ns,
    }
    return [name for name, is_true in faults.items() if is_true]


def advice_table(folder: Path) -> str:
    """Return estimate, idle shares, and advice of each trace, with the unprofiled step."""
    rows: list[tuple[object, ...]] = []
    count, faulty, errors, hits = 0, 0, [], []
    for path, truth in truths(folder):
        plain_ns = truth["wall_step_ms"] * 1e6
        with tracekit.open(path, cache=False) as trace:
            advised = trace.advise().advice
            estimates = trace.query("unprofiled").to_dicts()
        estimate = estimates[0] if estimates else dict.fromkeys(NO_ESTIMATE)
        work_ns, estimate_ns = estimate["work_ns"] or 0, estimate["unprofiled_step_ns"]
        faults = [faults_of(one, work_ns, plain_ns) for one in advised if one.figure == "step"]
        count += len(faults)
        faulty += sum(map(bool, faults))
        if estimate_ns is not None:
            errors.append(error_pct(estimate_ns, plain_ns))
            hits.append(estimate["low_ns"] <= plain_ns <= estimate["high_ns"])
        true_idle = max(100 * (1 - work_ns / plain_ns), 0)
        idle = (estimate["recorded_idle_pct"], estimate["idle_pct"], true_idle)
        first = advised[0] if advised else None
        gain = "" if first is None else f"{first.prediction.gain_pct:.1f} %"
        rows.append(
            (
                f"`{truth['name']}`",
                f"{plain_ns / 1e6:.1f}",
                "" if estimate_ns is None else f"{estimate_ns / 1e6:.1f}",
                *("" if one is None else f"{one:.0f}" for one in idle),
                "" if first is None else first.candidate.place,
                gain,
                "; ".join(dict.fromkeys(fault for one in faults for fault in one)),
            )
        )
    heads = (
        *("recording", "unprofiled step, ms", "estimated, ms", "idle recorded, %", "estimated, %"),
        *("unprofiled, %", "first advice", "gain", "impossible statements"),
    )
    return (
        f"{made_parts.table(heads, rows)}\n"
        f"Of {count} statements, {faulty} are impossible. The median absolute error of the "
        f"estimates is {statistics.median(map(abs, errors)):.1f} %, and the mean error is "
        f"{statistics.fmean(errors):+.1f} %; {sum(hits)} of {len(hits)} intervals contain the "
        "measured time."
    )


PARTS = {"times": times_table, "roles": roles_table, "advice": advice_table}


def main(arguments: Sequence[str] | None = None) -> None:
    """Update the page."""
    parser = argparse.ArgumentParser(prog="make truth")
    parser.add_argument("--traces", type=Path, default=REPO.parent / "shared" / "h200")
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--only", default="", help="text in the names of parts")
    parsed = parser.parse_args(arguments)
    for name, make in PARTS.items():
        if parsed.only in name:
            text = parsed.out.read_text("utf-8")
            table = make(parsed.traces)
            parsed.out.write_text(made_parts.filled(text, f"make truth, {name}", table), "utf-8")


if __name__ == "__main__":
    main()
