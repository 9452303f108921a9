"""Tables agree: what any two analyses say of the same device events is the same."""

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from every_trace import on_every_trace

from tracekit.analysis.catalog import load_catalog

EVERYTHING = 2**62


@dataclass(frozen=True)
class Figure:
    """Sums of an analysis over the rows that match `where`, by the values of column `by`.

    Without `by`, there is one sum; with `rank`, one sum over all devices of each rank.
    """

    analysis: str
    by: str
    of: str
    where: Callable = bool
    params: dict[str, Any] = field(default_factory=dict)

    def sums(self, rows):
        found = defaultdict(int)
        for row in rows:
            if self.where(row):
                place = () if self.by in ("", "rank") else (row["rank"], row["device"])
                found[*place, row[self.by] if self.by else None] += row[self.of]
        return {key: ns for key, ns in found.items() if ns}


def is_on_accelerator(row):
    return row["device"] != "cpu"


def is_comm(row):
    return str(row.get("class", row.get("comm_class"))).startswith("comm_")


def is_copied_or_set(row):
    return str(row.get("class", row.get("direction"))).startswith(("memcpy_", "memset"))


ALL = {"limit": 0}
IN_STEPS = {"steps": True}
ONE_BY_ONE = {"length": 1, "min_length": 1, "limit": 0}
TILES = {"limit": 10, "tiles": 64}
SHORT = {"max_kernel_ns": EVERYTHING, "limit": 0}

# For each figure, all analyses that have it. Any two of them must agree.
FIGURES = {
    **{
        f"{time} time by class": [
            Figure("kernel_classes", "class", f"{time}_ns"),
            Figure("module_classes", "class", f"self_{time}_ns"),
            Figure("kernels", "class", f"{time}_ns", params=ALL),
            Figure("short_kernels", "class", f"{time}_ns", lambda row: row["class"], SHORT),
        ]
        for time in ("kernel", "wall")
    },
    "kernel time of communication by class": [
        Figure("kernel_classes", "class", "kernel_ns", is_comm),
        Figure("kernels", "class", "kernel_ns", is_comm, ALL),
        Figure("short_kernels", "class", "kernel_ns", is_comm, SHORT),
        Figure("communication", "class", "kernel_ns"),
        Figure("collectives", "class", "dur_ns", params=ALL),
    ],
    "exposed communication by class": [
        Figure("kernel_classes", "class", "wall_ns", is_comm),
        Figure("communication", "class", "wall_ns"),
        Figure("collectives", "class", "wall_ns", params=ALL),
        Figure(
            *("overlap", "comm_class", "overlap_ns"), lambda row: row["compute_name"] == "(exposed)"
        ),
    ],
    "number of device events of communication by class": [
        Figure("kernel_classes", "class", "kernel_count", is_comm),
        Figure("communication", "class", "kernel_count"),
    ],
    "union of communication": [
        Figure("timeline", "device", "comm_ns"),
        Figure("communication", "device", "comm_ns"),
        Figure("overlap", "device", "overlap_ns", params=ALL),
    ],
    "number of copies and sets by class": [
        Figure("kernel_classes", "class", "kernel_count", is_copied_or_set),
        Figure("memcpy", "direction", "copy_count", is_copied_or_set),
    ],
    "copies and sets by class": [
        Figure("kernel_classes", "class", "kernel_ns", is_copied_or_set),
        Figure("memcpy", "direction", "kernel_ns", is_copied_or_set),
    ],
    **{
        f"{time} time by phase": [
            Figure("phases", "phase", f"{time}_ns"),
            Figure("modules", "phase", f"self_{time}_ns"),
            Figure("roles", "phase", f"{time}_ns"),
            Figure("gemm_share", "phase", f"{time}_ns", lambda row: row["phase"] != "(all)"),
        ]
        for time in ("kernel", "wall")
    },
    "time of compute by phase": [
        Figure("phases", "phase", "compute_kernel_ns"),
        Figure("compute_memory", "phase", "kernel_ns"),
        Figure("gemm_share", "phase", "compute_kernel_ns", lambda row: row["phase"] != "(all)"),
    ],
    "exposed communication by phase": [
        Figure("phases", "phase", "exposed_comm_ns"),
        Figure("collectives", "phase", "wall_ns", params=ALL),
        Figure(
            *("roles", "phase", "wall_ns"),
            lambda row: row["role"] == "non-overlapping communication",
        ),
    ],
    "time of GEMMs": [
        Figure("kernel_classes", "device", "kernel_ns", lambda row: row["class"] == "gemm"),
        Figure("gemm_share", "device", "gemm_kernel_ns", lambda row: row["phase"] != "(all)"),
    ],
    "kernel time of steps": [
        Figure("roles", "device", "kernel_ns", params=IN_STEPS),
        Figure("modules", "device", "self_kernel_ns", params=IN_STEPS),
    ],
    "wall time of steps, by phase": [
        Figure("roles", "phase", "wall_ns", params=IN_STEPS),
        Figure("modules", "phase", "self_wall_ns", params=IN_STEPS),
    ],
    "kernel time": [
        Figure("phases", "device", "kernel_ns"),
        Figure("reasons", "device", "kernel_ns", lambda row: row["decides"] == "phase"),
    ],
    "loading of data, by phase": [
        Figure(
            *("modules", "phase", "self_kernel_ns"),
            lambda row: row["module_path"] == "(data loading)",
        ),
        Figure("roles", "phase", "kernel_ns", lambda row: row["role"] == "(data loading)"),
    ],
    "calls of ops": [
        Figure("ops", "rank", "op_count", lambda row: row["op"], ALL),
        Figure("op_arguments", "rank", "op_count", params=ALL),
    ],
    "kernel time of ops": [
        Figure("ops", "rank", "direct_kernel_ns", lambda row: row["op"], ALL),
        Figure("op_arguments", "rank", "direct_kernel_ns", params=ALL),
    ],
    "host time of ops": [
        Figure("ops", "rank", "self_host_ns", lambda row: row["op"], ALL),
        Figure("op_arguments", "rank", "self_host_ns", params=ALL),
    ],
    "kernels in sequences of one": [
        Figure("kernel_sequences", "rank", "kernel_ns", params=ONE_BY_ONE),
        Figure("kernels", "rank", "kernel_ns", params=ALL),
    ],
    "busy time of all devices": [
        Figure("timeline", "", "busy_ns"),
        Figure("ops", "", "direct_wall_ns", params=ALL),
        Figure("pivot_cells", "", "wall_ns", params={"cells": 0}),
        Figure("pivot_cells", "", "wall_ns", params={"cells": 3}),
    ],
    "idle time of all devices": [
        Figure("timeline", "", "idle_ns"),
        Figure("pivot_cells", "", "idle_ns", params={"cells": 0}),
        Figure("pivot_cells", "", "idle_ns", params={"cells": 3}),
    ],
    "device events": [
        Figure("timeline", "device", "event_count"),
        Figure("kernel_classes", "device", "kernel_count"),
    ],
    # The timeline draws each piece of a CPU op.
    "device events of accelerators": [
        Figure("timeline", "device", "event_count", is_on_accelerator),
        Figure("timeline_events", "device", "event_count", is_on_accelerator, TILES),
    ],
    "idle time": [
        Figure("timeline", "device", "idle_ns"),
        Figure("phases", "device", "idle_ns"),
        Figure("idle_causes", "device", "idle_ns"),
        Figure("idle_gaps", "device", "idle_ns", params=ALL),
        Figure("rank_summary", "device", "idle_ns"),
    ],
    "idle time by cause": [
        Figure("idle_causes", "cause", "idle_ns"),
        Figure("idle_gaps", "cause", "idle_ns", params=ALL),
    ],
    "busy time": [
        Figure("timeline", "device", "busy_ns"),
        Figure("kernel_classes", "device", "wall_ns"),
        Figure("phases", "device", "wall_ns"),
        Figure("modules", "device", "self_wall_ns"),
        Figure("roles", "device", "wall_ns"),
        Figure("rank_summary", "device", "busy_ns"),
        Figure("reasons", "device", "wall_ns", lambda row: row["decides"] == "phase"),
        Figure("reasons", "device", "wall_ns", lambda row: row["decides"] == "module"),
    ],
}

# Analyses with classes or phases that do not sum all device events.
APART = {
    "run_phases": "only of steps, as the mean step of each device",
    "layers": "only work in layers, by module",
    "serving_modules": "only phases of serving; row other has the rest",
    "serving_steps": "phases of steps, not of device work",
    "serving_timeline": "only phases of serving",
    "gemms": "single GEMMs, by op",
    "collective_skew": "matched collectives of several ranks",
    "mfu": "FLOPs, by step",
    "split": "parts of steps, without the time before and after steps",
    "timeline_events": "single events and tiles for drawing",
    "compiled": "no rows without compiled code; tested below",
    "captured_kernels": "only kernels of captured graphs",
    "memory_peak": "bytes, by the phase of an allocation",
    "memcpy_over_time": "rates by the time of the trace",
    "memory_peaks": "bytes, and the phase at the peak",
}


@on_every_trace
def test_analyses_agree(answered, path):
    ask = answered(path)
    for question, figures in FIGURES.items():
        found = [
            (figure.analysis, figure.sums(ask(figure.analysis, **figure.params).to_dicts()))
            for figure in figures
        ]
        for (one, ours), (other, theirs) in itertools.combinations(found, 2):
            assert ours == theirs, f"{question}: {one} and {other}"


@on_every_trace
def test_compiled_and_other_work_add_up(answered, path):
    ask = answered(path)
    found = Figure("compiled", "phase", "wall_ns").sums(ask("compiled", limit=0).to_dicts())
    all_of_it = Figure("phases", "phase", "wall_ns").sums(ask("phases").to_dicts())
    assert found in ({}, all_of_it)


def _with_classes_or_phases():
    for spec in load_catalog().analyses.values():
        names = {column.name for column in spec.columns}
        if {"rank", "device"} <= names and {"class", "phase", "direction"} & names:
            yield spec.name


def test_every_analysis_is_compared():
    compared = {figure.analysis for figures in FIGURES.values() for figure in figures}
    assert set(_with_classes_or_phases()) - compared - set(APART) - {"memcpy_steps"} == set()


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
