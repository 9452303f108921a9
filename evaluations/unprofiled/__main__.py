"""`make unprofiled`: measures the error of the estimated unprofiled step.

    make unprofiled ARGS="[--traces FOLDER] [--out FOLDER]"

FOLDER has recordings and `truth.jsonl` with a line per recording. `wall_step_ms` is the time of an
unprofiled step, and `plain_event_ns` has CUDA event times of sections of such steps. FOLDER/runs
has run folders whose run.json has steps without ranges or profiler. Writes the tables of the
manual's pages on the unprofiled step and on predictions.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import made_parts
from msgspec import Struct

import tracekit

REPO = Path(__file__).resolve().parents[2]
PAGES = REPO / "docs" / "explanation"
SECTIONS = ("forward", "backward", "optimizer", "prefill", "decode")
MIN_SHARE = 0.03
"""Sections with a smaller share of a step are not compared, because events take microseconds."""


class Known(Struct, frozen=True):
    """A recording, its unprofiled step, and the sections of the step by name, ns."""

    name: str
    path: Path
    kind: str
    plain_ns: float
    sections: dict[str, float]


def recordings(folder: Path) -> Iterator[Known]:
    """Yield the existing recordings: third-party training loops, then runs of the collectors."""
    for line in (folder / "truth.jsonl").read_text("utf-8").splitlines():
        truth = json.loads(line)
        path = folder / f"{truth['name']}.json.gz"
        if path.exists():
            sections = {
                name: statistics.fmean(ns) for name, ns in (truth["plain_event_ns"] or {}).items()
            }
            yield Known(
                truth["name"], path, "torch.profiler", truth["wall_step_ms"] * 1e6, sections
            )
    for path in sorted((folder / "runs").glob("**/rank0.json.gz")):
        run = json.loads((path.parent / "run.json").read_text("utf-8"))
        steps = [ns for repeat in run.get("repeats") or () for ns in repeat["step_ns"]]
        plain_ns = (run.get("overhead") or {}).get("plain_step_ns")
        if steps or plain_ns:
            name = str(path.parent.relative_to(folder / "runs"))
            yield Known(name, path, "tracekit collect", statistics.median(steps or [plain_ns]), {})


def measured(one: Known, copies: Path) -> dict[str, Any]:
    """Return tracekit's results without and with the measured unprofiled step."""
    # Use a copy, so that tracekit finds no manifest.
    copy = copies / f"{one.name.replace('/', '_')}.json.gz"
    copy.write_bytes(one.path.read_bytes())
    with tracekit.open(copy, cache=False) as trace:
        result: dict[str, Any] = trace.query("unprofiled").to_dicts()[0]
        trace.assume_unprofiled_step(round(one.plain_ns))
        (known,) = trace.query("unprofiled").to_dicts()
        phases = trace.query("run_phases").to_dicts()
    copy.unlink()
    result |= {"name": one.name, "kind": one.kind, "truth_ns": one.plain_ns}
    result |= {"factor": known["host_factor"], "known_reason": known["reason"]}
    work_ns = result["work_ns"]
    result["truth_idle_pct"] = None if work_ns is None else 100 * max(1 - work_ns / one.plain_ns, 0)
    times: dict[str, list[int]] = {}
    for row in phases:
        # Recomputation is in the backward section.
        name = "backward" if row["phase"] == "recompute" else row["phase"]
        if row["run_ns"] is not None and one.sections.get(name, 0) >= MIN_SHARE * one.plain_ns:
            recorded_ns, run_ns = times.get(name, (0, 0))
            times[name] = [recorded_ns + row["recorded_ns"], run_ns + row["run_ns"]]
    result["sections"] = [
        (name, one.sections[name], *times[name]) for name in SECTIONS if name in times
    ]
    return result


def ms(ns: float | None) -> str:
    """Return ms with two decimals, or an empty string."""
    return "" if ns is None else f"{ns / 1e6:.2f}"


def steps_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a row per recording: unprofiled, recorded, and estimated step, and idle shares."""
    lines: list[tuple[object, ...]] = []
    for row in rows:
        low, high = row["low_ns"], row["high_ns"]
        between = ""
        if low is not None:
            miss = "" if low <= row["truth_ns"] <= high else " ✗"
            between = f"{ms(low)} to {ms(high)}{miss}"
        estimate = row["unprofiled_step_ns"]
        off = f"{100 * (estimate / row['truth_ns'] - 1):+.0f} %" if estimate is not None else ""
        idle = (row["recorded_idle_pct"], row["idle_pct"], row["truth_idle_pct"])
        lines.append(
            (
                f"`{row['name']}`",
                *map(ms, (row["truth_ns"], row["recorded_step_ns"], estimate)),
                *(between, off, *("" if one is None else f"{one:.0f}" for one in idle)),
                "" if row["profiler_idle_pct"] is None else f"{row['profiler_idle_pct']:.0f}",
                "" if row["factor"] is None else f"{row['factor']:.2f}",
            )
        )
    heads = (
        *("recording", "unprofiled, ms", "recorded, ms", "estimated, ms", "interval, ms", "off"),
        *("idle recorded, %", "estimated, %", "unprofiled, %", "due to the profiler, %", "factor"),
    )
    return made_parts.table(heads, lines)


def summary_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return means over third-party training loops, and over runs of the collectors."""
    lines: list[tuple[object, ...]] = []
    for kind in ("torch.profiler", "tracekit collect"):
        ours = [row for row in rows if row["kind"] == kind]
        estimated = [row for row in ours if row["unprofiled_step_ns"] is not None]
        between = [row for row in ours if row["low_ns"] is not None]
        hit_count = sum(row["low_ns"] <= row["truth_ns"] <= row["high_ns"] for row in between)
        idle = [row for row in estimated if row["idle_pct"] is not None]

        def off(column: str, among: Sequence[dict[str, Any]]) -> str:
            errors = [100 * abs(row[column] / row["truth_ns"] - 1) for row in among]
            return f"{statistics.fmean(errors):.1f} % ({statistics.median(errors):.1f} %)"

        def idle_off(column: str, among: Sequence[dict[str, Any]]) -> str:
            errors = [abs(row[column] - row["truth_idle_pct"]) for row in among]
            return f"{statistics.fmean(errors):.1f}"

        lines.append(
            (
                *(kind, len(ours), len(estimated), off("recorded_step_ns", ours)),
                *(off("unprofiled_step_ns", estimated), f"{hit_count} of {len(between)}"),
                *(idle_off("recorded_idle_pct", idle), idle_off("idle_pct", idle)),
            )
        )
    heads = (
        *("recorded by", "recordings", "with a figure", "recorded step off, mean (median)"),
        *("estimated step off", "intervals hold", "idle share off, points, recorded"),
        "estimated",
    )
    return made_parts.table(heads, lines)


def phases_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the errors of phase times for known steps."""
    parts = [section for row in rows for section in row["sections"]]
    recorded, run = ([100 * abs(part[place] / part[1] - 1) for part in parts] for place in (2, 3))
    lines: list[tuple[object, ...]] = [
        (
            name,
            len(errors),
            f"{statistics.median(errors):.1f} %",
            f"{statistics.fmean(errors):.1f} %",
        )
        for name, errors in (("recording", recorded), ("unprofiled, step measured", run))
    ]
    return made_parts.table(("phase times by", "sections", "off, median", "mean"), lines)


PAIRS = (
    ("llama_recompute", "llama_base", "recompute off"),
    ("llama_recompute_reentrant", "llama_base", "recompute off"),
    ("llama_base", "llama_fused_adam", "optimizer fused"),
    ("llama_loop_adam", "llama_fused_adam", "optimizer fused"),
    ("llama_item_step", "llama_base", "op=aten::item remove"),
    ("llama_item_layer", "llama_base", "op=aten::item remove"),
    ("llama_dataloader", "llama_dataloader_workers", "loading workers=4"),
    ("llama_dataloader", "llama_base", "loading remove"),
    ("llama_pageable", "llama_pinned_overlap", "class=memcpy_h2d remove"),
    ("llama_pageable", "llama_base", "class=memcpy_h2d remove"),
    ("llama_base", "llama_accum4", "accumulate x4"),
    ("llama_fp32", "llama_tf32", "precision=tf32"),
    ("llama_base", "llama_recompute", "recompute on"),
    ("small_base", "small_graph", "graph on"),
    ("small_base", "small_compile", "compile on; optimizer fused"),
)
"""Two recordings, and the change that turns the first loop into the second."""


def step_gain_ns(trace: tracekit.Trace, change: str, *, is_recorded: bool) -> float:
    """Return the reduction of a step, ns; negative if it becomes longer."""
    return trace.predict(*change.split("; "), is_recorded=is_recorded).gain_ns


def pairs_table(folder: Path) -> str:
    """Return measured gains of unprofiled steps, and predicted gains."""
    known = {one.name: one for one in recordings(folder)}
    plain_ns = {
        truth["name"]: truth["wall_step_ms"] * 1e6
        for truth in map(json.loads, (folder / "truth.jsonl").read_text("utf-8").splitlines())
    }
    lines: list[tuple[object, ...]] = []
    errors: list[tuple[float, ...]] = []
    for before, after, change in PAIRS:
        if before not in known or after not in plain_ns:
            continue
        true_ns = plain_ns[before] - plain_ns[after]
        with tracekit.open(known[before].path, cache=False) as trace:
            recorded = step_gain_ns(trace, change, is_recorded=True)
            alone = step_gain_ns(trace, change, is_recorded=False)
            trace.assume_unprofiled_step(round(plain_ns[before]))
            of_run = step_gain_ns(trace, change, is_recorded=False)
        result = (recorded, alone, of_run)
        errors.append(tuple(abs(ns - true_ns) for ns in result))
        lines.append((f"`{before}` → `{after}`", f"`{change}`", *map(ms, (true_ns, *result))))
    means = map(statistics.fmean, zip(*errors, strict=True))
    lines.append(("off, mean", "", "", *map(ms, means)))
    heads = ("recording", "change", "gain of a step, ms", "while profiling", "unprofiled")
    return made_parts.table((*heads, "unprofiled, step measured"), lines)


PARTS = {"summary": summary_table, "phases": phases_table, "steps": steps_table}


def main(arguments: Sequence[str] | None = None) -> None:
    """Update the pages."""
    import tempfile

    parser = argparse.ArgumentParser(prog="make unprofiled")
    parser.add_argument("--traces", type=Path, default=REPO.parent / "shared" / "h200")
    parser.add_argument("--out", type=Path, default=PAGES)
    parsed = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(one, Path(folder)) for one in recordings(parsed.traces)]
    for name, make in PARTS.items():
        fill(parsed.out / "unprofiled.md", name, make(rows))
    fill(parsed.out / "predictions.md", "pairs", pairs_table(parsed.traces))


def fill(page: Path, name: str, table: str) -> None:
    """Write a table to its part of a page."""
    text = made_parts.filled(page.read_text("utf-8"), f"make unprofiled, {name}", table)
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
