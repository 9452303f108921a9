"""The figures of the paper's tables, taken from our runs: from manifests, and from analyses.

Times are per step: what the traces of a run hold, over the number of its steps, as the mean over
its ranks. GB are 1e9 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracekit.errors import TraceError
from tracekit.paper.runs import OurRun
from tracekit.paper.tables import Cell
from tracekit.units import NS_PER_MS, NS_PER_S

Key = tuple[Cell, ...]
Figures = list[tuple[Key, tuple[Cell, ...]]]
_Rows = list[dict[str, Any]]

_BYTES_PER_GB = 1e9


@dataclass(frozen=True, slots=True)
class Measure:
    """How to take the figures of one table from a run.

    `key` names the columns of the paper's table that tell its rows apart within one run; `figures`
    are name and DuckDB type of what is taken, named as the paper's columns where it is the same.
    `take` returns a list of keys with their figures, or raises a `TracekitError` that says why
    there are none. `source` is the analysis to ask for more.
    """

    source: str
    key: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]
    take: Callable[[OurRun], Figures]


def _throughput(run: OurRun) -> Figures:
    manifest = run.manifest
    peaks = [memory.device_allocated_bytes for memory in manifest.peak_memory]
    known = [peak for peak in peaks if peak is not None]
    figures: tuple[Cell, ...] = (
        manifest.tokens_per_s_mean,
        manifest.tokens_per_s_std,
        max(known) / _BYTES_PER_GB if known else None,
        manifest.batch_size,
        manifest.outcome,
    )
    return [((), figures)]


def _hardware(run: OurRun) -> Figures:
    environment = run.manifest.environment
    memory = environment.memory_bytes
    gpus = ", ".join(dict.fromkeys(environment.devices)) or None
    cores = f", {environment.core_count} cores" if environment.core_count else ""
    figures: tuple[Cell, ...] = (
        len(environment.devices),
        gpus,
        f"{environment.processor or 'unknown'}{cores}",
        f"{memory / _BYTES_PER_GB:.0f} GB" if memory else None,
    )
    return [((), figures)]


def _phases(run: OurRun) -> Figures:
    return [
        (
            (row["phase"],),
            (
                row["step_span_ns"] / NS_PER_MS,
                row["span_pct"],
                row["step_compute_kernel_ns"] / NS_PER_MS,
            ),
        )
        for row in _ask_of_steps(run, "phase_steps")
    ]


def _roles(run: OurRun) -> Figures:
    return [
        ((row["phase"], row["role"]), (row["step_wall_ns"] / NS_PER_MS, row["phase_pct"]))
        for row in _ask_of_steps(run, "role_steps")
        if row["phase"] in ("forward", "backward")
    ]


def _attention(run: OurRun) -> Figures:
    found = _ask(run, "attention_layers")
    if not found:
        # Of a trace without steps, that is the reason; of one with steps, its names are.
        _ask_of_steps(run, "transfer_steps")
        raise TraceError("the trace names no attention modules")
    return [((row["phase"],), (row["step_wall_ns"] / NS_PER_MS,)) for row in found]


def _first_gemm(run: OurRun) -> Figures:
    """The products of hidden size by MLP size: gate_proj and up_proj, which have the same one."""
    config = run.manifest.model.config if run.manifest.model else {}
    shape = (config.get("intermediate_size"), config.get("hidden_size"))
    if None in shape:
        raise TraceError("the manifest does not tell the sizes of the model")
    rows = [row for row in _ask(run, "gemm_totals") if (row["n"], row["k"]) == shape]
    if not rows:
        raise TraceError("the trace has no such product, or no shapes")
    longest = rows[0]
    return [(shape, (longest["m"], longest["mean_ns"] / NS_PER_MS, longest["peak_pct"]))]


def _gemm_share(run: OurRun) -> Figures:
    return [
        ((row["phase"],), (row["gemm_pct"],))
        for row in _ask(run, "gemm_share_totals")
        if row["phase"] in ("forward", "backward") and row["gemm_pct"] is not None
    ]


def _copies(run: OurRun) -> Figures:
    return _transfers(run, "memcpy", "(all)")


def _all_reduce(run: OurRun) -> Figures:
    return _transfers(run, "comm", "comm_allreduce")


def _all_communication(run: OurRun) -> Figures:
    return _transfers(run, "comm", "(all)")


def _transfers(run: OurRun, kind: str, class_name: str) -> Figures:
    """Return seconds per step and share of the step; what no step has takes no time."""
    rows = _ask_of_steps(run, "transfer_steps")
    found = {(row["kind"], row["class"]): row for row in rows}
    row = found.get((kind, class_name))
    if row is None:
        return [((), (0.0, 0.0))]
    return [((), (row["step_kernel_ns"] / NS_PER_S, row["step_pct"]))]


def _serving_modules(run: OurRun) -> Figures:
    """The paper's last row is what is neither computation nor communication: copies and idle."""
    return [
        (
            ("other" if row["task_group"] == "rest" else row["task_group"], row["task"]),
            (row["phase"], _ms(row["step_wall_ns"]), row["phase_pct"]),
        )
        for row in _ask(run, "serving_module_steps")
        if row["task_group"] != "rest" or row["task"] == "(all)"
    ]


def _serving_timeline(run: OurRun) -> Figures:
    return [
        ((row["section"],), (row["phase"], _ms(row["step_span_ns"]), row["span_pct"]))
        for row in _ask(run, "serving_timeline_steps")
    ]


def _ms(time_ns: float | None) -> float | None:
    return None if time_ns is None else time_ns / NS_PER_MS


_TIME = (("time_s", "DOUBLE"), ("step_pct", "DOUBLE"))
_PHASE_TIMES = (("overall_ms", "DOUBLE"), ("step_pct", "DOUBLE"), ("compute_kernel_ms", "DOUBLE"))
_THROUGHPUT = (
    ("tokens_per_s", "DOUBLE"),
    ("tokens_per_s_std", "DOUBLE"),
    ("memory_gb", "DOUBLE"),
    ("batch_size", "BIGINT"),
    ("outcome", "VARCHAR"),
)
_SERVING = (("phase", "VARCHAR"), ("time_ms", "DOUBLE"), ("pass_pct", "DOUBLE"))
_PRODUCT = (("m", "BIGINT"), ("time_ms", "DOUBLE"), ("peak_pct", "DOUBLE"))

MEASURES: dict[str, Measure] = {
    "table1": Measure(
        "run",
        (),
        (
            *(("gpu_count", "BIGINT"), ("gpu", "VARCHAR")),
            *(("cpu", "VARCHAR"), ("memory", "VARCHAR")),
        ),
        _hardware,
    ),
    "table2": Measure("methods", (), _THROUGHPUT, _throughput),
    "table3": Measure("methods", (), _THROUGHPUT, _throughput),
    "table4": Measure("methods", (), _THROUGHPUT, _throughput),
    "table5": Measure("phases", ("phase",), _PHASE_TIMES, _phases),
    "table6": Measure(
        "roles", ("phase", "module"), (("time_ms", "DOUBLE"), ("phase_pct", "DOUBLE")), _roles
    ),
    "table7": Measure("phases", ("phase",), _PHASE_TIMES, _phases),
    "table8": Measure("attention_layers", ("phase",), (("attention_ms", "DOUBLE"),), _attention),
    "table9": Measure("methods", (), _THROUGHPUT, _throughput),
    "table10": Measure("serving_module_steps", ("part", "task"), _SERVING, _serving_modules),
    "table11": Measure("serving_timeline_steps", ("section",), _SERVING, _serving_timeline),
    "table12": Measure("gemm_totals", ("n", "k"), _PRODUCT, _first_gemm),
    "table13": Measure("gemm_share", ("phase",), (("gemm_pct", "DOUBLE"),), _gemm_share),
    "table14": Measure("transfer_steps", (), _TIME, _copies),
    "table15": Measure("transfer_steps", (), _TIME, _all_reduce),
    "table16": Measure("transfer_steps", (), _TIME, _all_communication),
}
"""How each table is measured; the figures of the paper's plots are not."""


def _ask(run: OurRun, name: str, **params: object) -> _Rows:
    if not run.has_traces:
        raise TraceError("the run has no trace")
    return run.ask(name, **params).to_dicts()


def _ask_of_steps(run: OurRun, name: str) -> _Rows:
    """Return the rows of an analysis whose figures are per step.

    Raises:
        TraceError: the traces mark no steps, or the run has none.
    """
    rows = _ask(run, name)
    if not rows:
        raise TraceError("the trace marks no steps")
    return rows
