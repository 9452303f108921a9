"""Tables agree: what any two analyses say of the same device events is the same."""

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from every_trace import on_every_trace

from tracekit.analysis.catalog import load_catalog

Row = dict[str, Any]

EVERYTHING = 2**62


@dataclass(frozen=True)
class Said:
    """Sums of an analysis over the rows that match `where`, by the values of column `by`.

    Without `by`, there is one sum; with `rank`, one sum over all devices of each rank.
    """

    analysis: str
    by: str
    of: str
    where: Callable[[Row], Any] = bool
    params: dict[str, Any] = field(default_factory=dict)

    def sums(self, rows):
        found = defaultdict(int)
        for row in rows:
            if self.where(row):
                place = () if self.by in ("", "rank") else (row["rank"], row["device"])
                found[*place, row[self.by] if self.by else None] += row[self.of]
        return {key: ns for key, ns in found.items() if ns}


def is_comm(row):
    return str(row.get("class", row.get("comm_class"))).startswith("comm_")


def is_copied_or_set(row):
    return str(row.get("class", row.get("direction"))).startswith(("memcpy_", "memset"))


ALL = {"limit": 0}
IN_STEPS = {"steps": True}
ONE_BY_ONE = {"length": 1, "min_length": 1, "limit": 0}
SHORT = {"max_kernel_ns": EVERYTHING, "limit": 0}

# For each figure, all analyses that have it. Any two of them must agree.
SAYINGS = {
    "kernel time by class": [
        Said("kernel_classes", "class", "kernel_ns"),
        Said("module_classes", "class", "self_kernel_ns"),
        Said("kernels", "class", "kernel_ns", params=ALL),
        Said("short_kernels", "class", "kernel_ns", lambda row: row["class"], SHORT),
    ],
    "wall time by class": [
        Said("kernel_classes", "class", "wall_ns"),
        Said("module_classes", "class", "self_wall_ns"),
        Said("kernels", "class", "wall_ns", params=ALL),
        Said("short_kernels", "class", "wall_ns", lambda row: row["class"], SHORT),
    ],
    "kernel time of communication by class": [
        Said("kernel_classes", "class", "kernel_ns", is_comm),
        Said("kernels", "class", "kernel_ns", is_comm, ALL),
        Said("short_kernels", "class", "kernel_ns", is_comm, SHORT),
        Said("communication", "class", "kernel_ns"),
        Said("collectives", "class", "dur_ns", params=ALL),
    ],
    "exposed communication by class": [
        Said("kernel_classes", "class", "wall_ns", is_comm),
        Said("communication", "class", "wall_ns"),
        Said("collectives", "class", "wall_ns", params=ALL),
        Said(
            *("overlap", "comm_class", "overlap_ns"), lambda row: row["compute_name"] == "(exposed)"
        ),
    ],
    "number of device events of communication by class": [
        Said("kernel_classes", "class", "kernel_count", is_comm),
        Said("communication", "class", "kernel_count"),
    ],
    "union of communication": [
        Said("timeline", "device", "comm_ns"),
        Said("communication", "device", "comm_ns"),
        Said("overlap", "device", "overlap_ns", params=ALL),
    ],
    "copies and sets by class": [
        Said("kernel_classes", "class", "kernel_ns", is_copied_or_set),
        Said("memcpy", "direction", "kernel_ns", is_copied_or_set),
    ],
    "kernel time by phase": [
        Said("phases", "phase", "kernel_ns"),
        Said("modules", "phase", "self_kernel_ns"),
        Said("roles", "phase", "kernel_ns"),
        Said("gemm_share", "phase", "kernel_ns", lambda row: row["phase"] != "(all)"),
    ],
    "wall time by phase": [
        Said("phases", "phase", "wall_ns"),
        Said("modules", "phase", "self_wall_ns"),
        Said("roles", "phase", "wall_ns"),
        Said("gemm_share", "phase", "wall_ns", lambda row: row["phase"] != "(all)"),
    ],
    "time of compute by phase": [
        Said("phases", "phase", "compute_kernel_ns"),
        Said("compute_memory", "phase", "kernel_ns"),
        Said("gemm_share", "phase", "compute_kernel_ns", lambda row: row["phase"] != "(all)"),
    ],
    "exposed communication by phase": [
        Said("phases", "phase", "exposed_comm_ns"),
        Said("collectives", "phase", "wall_ns", params=ALL),
        Said(
            *("roles", "phase", "wall_ns"),
            lambda row: row["role"] == "non-overlapping communication",
        ),
    ],
    "time of GEMMs": [
        Said("kernel_classes", "device", "kernel_ns", lambda row: row["class"] == "gemm"),
        Said("gemm_share", "device", "gemm_kernel_ns", lambda row: row["phase"] != "(all)"),
    ],
    "kernel time of steps": [
        Said("roles", "device", "kernel_ns", params=IN_STEPS),
        Said("modules", "device", "self_kernel_ns", params=IN_STEPS),
    ],
    "wall time of steps, by phase": [
        Said("roles", "phase", "wall_ns", params=IN_STEPS),
        Said("modules", "phase", "self_wall_ns", params=IN_STEPS),
    ],
    "kernel time": [
        Said("phases", "device", "kernel_ns"),
        Said("reasons", "device", "kernel_ns", lambda row: row["decides"] == "phase"),
    ],
    "loading of data, by phase": [
        Said(
            *("modules", "phase", "self_kernel_ns"),
            lambda row: row["module_path"] == "(data loading)",
        ),
        Said("roles", "phase", "kernel_ns", lambda row: row["role"] == "(data loading)"),
    ],
    "calls of ops": [
        Said("ops", "rank", "op_count", lambda row: row["op"], ALL),
        Said("op_arguments", "rank", "op_count", params=ALL),
    ],
    "kernel time of ops": [
        Said("ops", "rank", "direct_kernel_ns", lambda row: row["op"], ALL),
        Said("op_arguments", "rank", "direct_kernel_ns", params=ALL),
    ],
    "host time of ops": [
        Said("ops", "rank", "self_host_ns", lambda row: row["op"], ALL),
        Said("op_arguments", "rank", "self_host_ns", params=ALL),
    ],
    "kernels in sequences of one": [
        Said("kernel_sequences", "rank", "kernel_ns", params=ONE_BY_ONE),
        Said("kernels", "rank", "kernel_ns", params=ALL),
    ],
    "busy time of all devices": [
        Said("timeline", "", "busy_ns"),
        Said("ops", "", "direct_wall_ns", params=ALL),
        Said("pivot_cells", "", "wall_ns", params={"cells": 0}),
        Said("pivot_cells", "", "wall_ns", params={"cells": 3}),
    ],
    "idle time of all devices": [
        Said("timeline", "", "idle_ns"),
        Said("pivot_cells", "", "idle_ns", params={"cells": 0}),
        Said("pivot_cells", "", "idle_ns", params={"cells": 3}),
    ],
    "device events": [
        Said("timeline", "device", "event_count"),
        Said("timeline_events", "device", "event_count", params={"limit": 10, "tiles": 64}),
    ],
    "idle time": [
        Said("timeline", "device", "idle_ns"),
        Said("phases", "device", "idle_ns"),
        Said("idle_causes", "device", "idle_ns"),
        Said("idle_gaps", "device", "idle_ns", params=ALL),
        Said("rank_summary", "device", "idle_ns"),
    ],
    "idle time by cause": [
        Said("idle_causes", "cause", "idle_ns"),
        Said("idle_gaps", "cause", "idle_ns", params=ALL),
    ],
    "busy time": [
        Said("timeline", "device", "busy_ns"),
        Said("kernel_classes", "device", "wall_ns"),
        Said("phases", "device", "wall_ns"),
        Said("modules", "device", "self_wall_ns"),
        Said("roles", "device", "wall_ns"),
        Said("rank_summary", "device", "busy_ns"),
        Said("reasons", "device", "wall_ns", lambda row: row["decides"] == "phase"),
        Said("reasons", "device", "wall_ns", lambda row: row["decides"] == "module"),
    ],
}

# Analyses with classes or phases that do not sum all device events.
APART = {
    "run_phases": "of steps alone, a step of each device in the mean",
    "layers": "of work in layers alone, by modules",
    "serving_modules": "phases of serving alone; row other has the rest",
    "serving_steps": "phases of steps, not of device work",
    "serving_timeline": "phases of serving alone",
    "gemms": "single products, by op",
    "collective_skew": "collectives of several ranks, matched",
    "mfu": "operations, by step",
    "split": "parts of steps, which leave out what lies before and behind them",
    "timeline_events": "single events and tiles, to be drawn",
    "compiled": "no rows where nothing was compiled; the others are looked at below",
    "captured_kernels": "kernels of captured graphs alone",
    "memory_peak": "bytes, by the phase of an allocation",
    "memcpy_over_time": "rates by the time of the trace",
    "memory_peaks": "bytes, and the phase that runs when most are in use",
}


@on_every_trace
def test_any_two_say_the_same(answered, path):
    ask = answered(path)
    for question, sayings in SAYINGS.items():
        found = [
            (said.analysis, said.sums(ask(said.analysis, **said.params).to_dicts()))
            for said in sayings
        ]
        for (one, ours), (other, theirs) in itertools.combinations(found, 2):
            assert ours == theirs, f"{question}: {one} and {other}"


@on_every_trace
def test_what_was_compiled_and_the_rest_are_all(answered, path):
    ask = answered(path)
    found = Said("compiled", "phase", "wall_ns").sums(ask("compiled", limit=0).to_dicts())
    all_of_it = Said("phases", "phase", "wall_ns").sums(ask("phases").to_dicts())
    assert found in ({}, all_of_it)


def _with_classes_or_phases():
    for spec in load_catalog().analyses.values():
        names = {column.name for column in spec.columns}
        if {"rank", "device"} <= names and {"class", "phase", "direction"} & names:
            yield spec.name


def test_no_analysis_is_left_out():
    asked = {said.analysis for sayings in SAYINGS.values() for said in sayings}
    assert set(_with_classes_or_phases()) - asked - set(APART) - {"memcpy_steps"} == set()


@on_every_trace
def test_copies_of_input_have_one_place(answered, path):
    """Data loading in modules has phase data, except in serving steps."""
    rows = (
        answered(path)
        .trace.sql(
            "SELECT c.phase, c.row_name, count(*) FROM attribution AS c"
            " JOIN device_events AS d USING (trace_id, event_id, piece)"
            " WHERE d.class = 'memcpy_h2d' AND module_id IS NULL GROUP BY ALL"
        )
        .rows
    )
    serving = {"prefill", "decode", "mixed"}
    for phase, row_name, _ in rows:
        if phase == "data" or row_name == "(data loading)":
            assert (phase in {"data", *serving}, row_name) == (True, "(data loading)")
