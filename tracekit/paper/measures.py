"""Computes the figures of the paper's tables for runs, from manifests and analyses.

Times are per step: totals of a run's traces divided by the number of steps, averaged over ranks.
1 GB is 1e9 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from tracekit.errors import TraceError
from tracekit.paper.runs import OurRun
from tracekit.paper.tables import Cell
from tracekit.units import NS_PER_MS, NS_PER_S

Key = tuple[Cell, ...]
Figures = list[tuple[Key, tuple[Cell, ...]]]
_Row = dict[str, Any]

_BYTES_PER_GB = 1e9


class Measure(Struct, frozen=True):
    """How to compute the figures of one table for a run.

    `key` has the columns of the paper's table that distinguish rows of one run. Figures are named
    like the paper's columns. `by` names figures that distinguish rows with equal keys.
    """

    source: str
    key: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]
    take: Callable[[OurRun], Figures]
    by: tuple[str, ...] = ()


def _amount(value: Any, unit_ns: int | None) -> Any:
    return value if value is None or unit_ns is None else value / unit_ns


def _ask(run: OurRun, name: str) -> list[_Row]:
    if not run.manifest.traces:
        raise TraceError("the run has no trace")
    return run.ask(name).to_dicts()


def _ask_of_steps(run: OurRun, name: str) -> list[_Row]:
    rows = _ask(run, name)
    if not rows:
        raise TraceError("the trace has no marked steps")
    return rows


def _of(
    analysis: str,
    key: tuple[str, ...],
    figures: Mapping[str, int | None],
    keep: Callable[[_Row], bool] = lambda _row: True,
    ask: Callable[[OurRun, str], list[_Row]] = _ask_of_steps,
) -> Callable[[OurRun], Figures]:
    """Return a function that reads figures from an analysis: its columns with their units."""

    def take(run: OurRun) -> Figures:
        return [
            (
                tuple(row[name] for name in key),
                tuple(_amount(row[name], unit_ns) for name, unit_ns in figures.items()),
            )
            for row in ask(run, analysis)
            if keep(row)
        ]

    return take


def _of_transfers(kind: str, class_name: str) -> Callable[[OurRun], Figures]:
    """Return a function that reads seconds per step and their share; 0 without transfers."""
    columns = {"step_kernel_ns": NS_PER_S, "step_pct": None}
    wanted = kind, class_name
    take = _of("transfer_steps", (), columns, lambda row: (row["kind"], row["class"]) == wanted)
    return lambda run: take(run)[-1:] or [((), (0.0, 0.0))]


def _throughput(run: OurRun) -> Figures:
    manifest = run.manifest
    peaks = [memory.device_allocated_bytes for memory in manifest.peak_memory]
    known = [peak for peak in peaks if peak is not None]
    rates = manifest.tokens_per_s_mean, manifest.tokens_per_s_std
    memory_gb = max(known) / _BYTES_PER_GB if known else None
    return [((), (*rates, memory_gb, manifest.batch_size, manifest.outcome))]


def _hardware(run: OurRun) -> Figures:
    environment = run.manifest.environment
    memory = environment.memory_bytes
    gpus = ", ".join(dict.fromkeys(environment.devices)) or None
    cores = f", {environment.core_count} cores" if environment.core_count else ""
    cpu = f"{environment.processor or 'unknown'}{cores}"
    size = f"{memory / _BYTES_PER_GB:.0f} GB" if memory else None
    return [((), (len(environment.devices), gpus, cpu, size))]


def _attention(run: OurRun, name: str) -> list[_Row]:
    result = _ask(run, name)
    if not result:
        # Raises if the trace has no steps; otherwise, missing group names are the reason.
        _ask_of_steps(run, "transfer_steps")
        raise TraceError("the trace has no attention modules")
    return result


def _first_gemm(run: OurRun) -> Figures:
    """Return the longest GEMM with the shape of gate_proj and up_proj (hidden size × MLP size)."""
    config = run.manifest.model.config if run.manifest.model else {}
    shape = (config.get("intermediate_size"), config.get("hidden_size"))
    if None in shape:
        raise TraceError("the manifest has no model sizes")
    rows = [row for row in _ask(run, "gemm_totals") if (row["n"], row["k"]) == shape]
    if not rows:
        raise TraceError("the trace has no such GEMM, or no shapes")
    longest = rows[0]
    return [(shape, (longest["m"], longest["mean_ns"] / NS_PER_MS, longest["peak_pct"]))]


def _is_of_pass(row: _Row) -> bool:
    return row["phase"] in ("forward", "backward")


def _serving_modules(run: OurRun, name: str) -> list[_Row]:
    """Return the modules of serving; the paper's last row includes copies and idle time."""
    return [
        row | {"part": "other" if row["task_group"] == "rest" else row["task_group"]}
        for row in _ask(run, name)
        if row["task_group"] != "rest" or row["task"] == "(all)"
    ]


def _figures(*names: str, **types: str) -> tuple[tuple[str, str], ...]:
    """Return the figures with the types of the paper's columns, or DOUBLE."""
    return tuple((name, "DOUBLE") for name in names) + tuple(types.items())


def _training(take: Callable[[OurRun], Figures]) -> Measure:
    return Measure("transfer_steps", (), _figures("time_s", "step_pct"), take)


_METHODS = Measure(
    "methods",
    (),
    _figures(
        *("tokens_per_s", "tokens_per_s_std", "memory_gb"), batch_size="BIGINT", outcome="VARCHAR"
    ),
    _throughput,
)
_PHASES = Measure(
    "phases",
    ("phase",),
    _figures("overall_ms", "step_pct", "compute_kernel_ms"),
    _of(
        "phase_steps",
        ("phase",),
        {"step_span_ns": NS_PER_MS, "span_pct": None, "step_compute_kernel_ns": NS_PER_MS},
    ),
)
_SERVING = (("phase", "VARCHAR"), *_figures("time_ms", "pass_pct"))

MEASURES: dict[str, Measure] = {
    "table1": Measure(
        "run",
        (),
        _figures(gpu_count="BIGINT", gpu="VARCHAR", cpu="VARCHAR", memory="VARCHAR"),
        _hardware,
    ),
    "table2": _METHODS,
    "table3": _METHODS,
    "table4": _METHODS,
    "table5": _PHASES,
    "table6": Measure(
        "roles",
        ("phase", "module"),
        _figures("time_ms", "phase_pct"),
        _of(
            "role_steps",
            ("phase", "role"),
            {"step_wall_ns": NS_PER_MS, "phase_pct": None},
            _is_of_pass,
        ),
    ),
    "table7": _PHASES,
    "table8": Measure(
        "attention_layers",
        ("phase",),
        _figures("attention_ms"),
        _of("attention_layers", ("phase",), {"step_wall_ns": NS_PER_MS}, ask=_attention),
    ),
    "table9": _METHODS,
    "table10": Measure(
        "serving_module_steps",
        ("part", "task"),
        _SERVING,
        _of(
            "serving_module_steps",
            ("part", "task"),
            {"phase": None, "step_wall_ns": NS_PER_MS, "phase_pct": None},
            ask=_serving_modules,
        ),
        by=("phase",),
    ),
    "table11": Measure(
        "serving_timeline_steps",
        ("section",),
        _SERVING,
        _of(
            "serving_timeline_steps",
            ("section",),
            {"phase": None, "step_span_ns": NS_PER_MS, "span_pct": None},
            ask=_ask,
        ),
        by=("phase",),
    ),
    "table12": Measure(
        "gemm_totals",
        ("n", "k"),
        (("m", "BIGINT"), *_figures("time_ms", "peak_pct")),
        _first_gemm,
    ),
    "table13": Measure(
        "gemm_share",
        ("phase",),
        _figures("gemm_pct"),
        _of(
            "gemm_share_totals",
            ("phase",),
            {"gemm_pct": None},
            lambda row: _is_of_pass(row) and row["gemm_pct"] is not None,
            _ask,
        ),
    ),
    "table14": _training(_of_transfers("memcpy", "(all)")),
    "table15": _training(_of_transfers("comm", "comm_allreduce")),
    "table16": _training(_of_transfers("comm", "(all)")),
}
"""The measure of each table, except the paper's plots."""
