"""Rejects unknown names in rules, so that no rule passes because of a typo."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.names.rules import PHASES, load_kernel_rules
from tracekit.comparison.cells import OUTSIDE_WINDOW, PARTS
from tracekit.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from tracekit.checking.measured import Measured

GROUPED = re.compile(r"(?P<group>class|phase|cause)\.(?P<name>[\w ]+)\.(?P<column>\w+)")
MODULE = re.compile(r"module\(\s*(['\"])(?P<glob>.*)\1\s*\)\.(?P<column>\w+)", re.DOTALL)
QUANTILE = re.compile(r"(?P<quantile>p50|p90|p99|mean|max)\(\s*(?P<metric>\w+)\s*\)")
HEALTH = re.compile(r"health\.(?P<metric>\w+)")
COLUMN = re.compile(r"(?P<analysis>[a-z_]\w*)\.(?P<column>[a-z_]\w*)")

LATENCIES = ("e2e", "ttft", "tpot", "itl", "client_wait")
"""Metrics of analysis `latency`."""

OF_MANIFESTS = (
    *("manifest_unreadable", "run_not_ok", "missing_trace_files"),
    *("tokens_per_s_spread", "profiled_step_slowdown", "rejected_request_lines"),
    *("requests_left_out", "requests_missing", "rejected_benchmark_lines"),
    *("points_without_time", "points_with_wide_interval"),
)
"""Health metrics of runs with a manifest."""

_COLUMNS = {
    "class": ("wall_ns", "kernel_ns", "kernel_count"),
    "phase": ("wall_ns", "kernel_ns", "kernel_count", "idle_ns"),
    "cause": ("idle_ns", "wall_ns"),
    "module": ("wall_ns", "kernel_ns", "kernel_count", "idle_ns"),
}
"""Columns of each group that rules can use."""


def refuse_unknown(subject: str, sides: Sequence[Measured]) -> None:
    """Raise a UsageError for a name that is neither built-in nor on a side; hint at similar names.

    A module pattern must match a module, unless neither side has modules.
    """
    if match := GROUPED.fullmatch(subject):
        group = match["group"]
        _refuse(subject, group, match["name"], _known(group, sides))
        _refuse(subject, "column", match["column"], _COLUMNS[group])
    elif match := MODULE.fullmatch(subject):
        _refuse(subject, "column", match["column"], _COLUMNS["module"])
        _refuse_glob(subject, match["glob"], sides)
    elif match := QUANTILE.fullmatch(subject):
        _refuse(subject, "metric of latency", match["metric"], LATENCIES)
    elif match := HEALTH.fullmatch(subject):
        _refuse(subject, "metric of health", match["metric"], _metrics(sides))
    elif match := COLUMN.fullmatch(subject):
        analyses = load_catalog().analyses
        _refuse(subject, "analysis", match["analysis"], analyses)
        columns = [one.name for one in analyses[match["analysis"]].columns]
        _refuse(subject, f"column of {match['analysis']}", match["column"], columns)


def _refuse(subject: str, kind: str, name: str, known: Collection[str]) -> None:
    if name in known:
        return
    hint = did_you_mean(name, known) or ", ".join(sorted(known))
    raise UsageError(f"unknown rule target {subject!r}: unknown {kind} {name!r}", hint=hint)


def _known(group: str, sides: Sequence[Measured]) -> set[str]:
    if group == "phase":
        known = {*PHASES, "other"}
    elif group == "cause":
        params = {one.name: one for one in load_catalog().analyses["idle_gaps"].params}
        known = {*params["cause"].choices, *OUTSIDE_WINDOW}
    else:
        known = {rule["class"] for rule in load_kernel_rules()} | {"other"}
    for side in sides:
        if side.trace is not None and group == "class":
            # A rules file may define classes that no kernel of the run has.
            known |= {name for (name,) in side.trace.sql("SELECT DISTINCT class FROM kernel_rule")}
        for cell in side.side.cells if side.side else ():
            if group == "phase":
                known.add(cell.phase)
            elif (cell.part == PARTS[-1]) == (group == "cause"):
                known.add(cell.class_name)
    return known


def _metrics(sides: Sequence[Measured]) -> set[str]:
    known = set(OF_MANIFESTS)
    for side in sides:
        known |= set(side.health)
        if side.trace is not None:
            known |= set(side.trace.health().column("metric"))
    return known


def _refuse_glob(subject: str, glob: str, sides: Sequence[Measured]) -> None:
    has_modules = any(side.side and side.side.modules for side in sides)
    if not has_modules or any(side.modules_like(glob) for side in sides):
        return
    paths = {path for side in sides for path in side.module_paths()}
    hint = did_you_mean(glob, paths, cutoff=0.5) or "tracekit query modules lists the modules"
    raise UsageError(f"unknown rule target {subject!r}: {glob!r} matches no module", hint=hint)
