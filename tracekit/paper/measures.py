"""The figures of the paper's tables, taken from our runs: from manifests, and from analyses.

Times are per step: what the traces of a run hold, over the number of its steps, as the mean over
its ranks. GB are 1e9 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tracekit.errors import TraceError
from tracekit.paper.runs import OurRun
from tracekit.paper.tables import Cell
from tracekit.units import NS_PER_MS, NS_PER_S

Key = tuple[Cell, ...]
Figures = list[tuple[Key, tuple[Cell, ...]]]
_Rows = list[dict[str, Any]]
_Device = tuple[Any, Any]

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
    """The attention module of one layer: the outermost modules with attention in their name."""
    steps = _step_counts(run)
    found: dict[Key, list[float]] = {}
    for row in _ask(run, "modules"):
        *outer, own = (row["module_path"] or "").lower().split(".")
        is_outermost = not _is_attention(".".join(outer))
        if row["layer"] is not None and is_outermost and _is_attention(own):
            time_ms = row["total_wall_ns"] / steps[_device(row)] / NS_PER_MS
            found.setdefault((row["phase"],), []).append(time_ms)
    if not found:
        raise TraceError("the trace names no attention modules")
    return [(key, (fmean(times),)) for key, times in found.items()]


def _is_attention(name: str) -> bool:
    return "attn" in name or "attention" in name


def _first_gemm(run: OurRun) -> Figures:
    """The products of hidden size by MLP size: gate_proj and up_proj, which have the same one."""
    config = run.manifest.model.config if run.manifest.model else {}
    shape = (config.get("intermediate_size"), config.get("hidden_size"))
    if None in shape:
        raise TraceError("the manifest does not tell the sizes of the model")
    rows = [row for row in _ask(run, "gemms", limit=0) if (row["n"], row["k"]) == shape]
    if not rows:
        raise TraceError("the trace has no such product, or no shapes")
    longest = max(rows, key=lambda row: row["kernel_ns"])
    same = [row for row in rows if row["m"] == longest["m"]]
    peaks = [row["peak_pct"] for row in same if row["peak_pct"] is not None]
    calls = sum(row["call_count"] for row in same)
    time_ms = sum(row["kernel_ns"] for row in same) / calls / NS_PER_MS
    return [(shape, (longest["m"], time_ms, fmean(peaks) if peaks else None))]


def _gemm_share(run: OurRun) -> Figures:
    return [
        ((row["phase"],), (row["gemm_pct"],))
        for row in _ask(run, "gemm_share_totals")
        if row["phase"] in ("forward", "backward") and row["gemm_pct"] is not None
    ]


def _copies(run: OurRun) -> Figures:
    steps = _step_counts(run)
    rows = [row for row in _ask(run, "memcpy_steps") if row["direction"] == "(all)"]
    by_device = {_device(row): [row] for row in rows}
    return _per_step({device: by_device.get(device, []) for device in steps})


def _all_reduce(run: OurRun) -> Figures:
    return _communication(run, lambda row: row["class"] == "comm_allreduce")


def _all_communication(run: OurRun) -> Figures:
    return _communication(run, lambda _: True)


def _communication(run: OurRun, wanted: Callable[[dict[str, Any]], bool]) -> Figures:
    devices: dict[_Device, _Rows] = {device: [] for device in _step_counts(run)}
    for row in _ask(run, "communication"):
        if wanted(row) and _device(row) in devices:
            devices[_device(row)].append(row)
    return _per_step(devices)


def _per_step(devices: dict[_Device, _Rows]) -> Figures:
    """Return seconds per step and share of the step; a device without such work counts as 0."""
    time_ns = fmean(sum(row["step_kernel_ns"] or 0 for row in rows) for rows in devices.values())
    share_pct = fmean(sum(row["step_pct"] or 0 for row in rows) for rows in devices.values())
    return [((), (time_ns / NS_PER_S, share_pct))]


_TASKS = {"idle": ("other", "(all)"), "memory copy": ("other", "(all)")}


def _serving_modules(run: OurRun) -> Figures:
    """The paper's last row is what is neither computation nor communication: copies and idle."""
    found: dict[Key, dict[_Device, list[float]]] = {}
    for row in _ask(run, "serving_modules"):
        keys = {_TASKS.get(row["task"], (row["task_group"], row["task"]))}
        keys.add((row["task_group"] if row["task_group"] != "rest" else "other", "(all)"))
        for key in keys:
            devices = found.setdefault((*key, row["phase"]), {})
            total = devices.setdefault(_device(row), [0.0, 0.0])
            total[0] += row["step_wall_ns"] or 0
            total[1] += row["phase_pct"] or 0
    return _by_phase(found)


def _serving_timeline(run: OurRun) -> Figures:
    found: dict[Key, dict[_Device, list[float]]] = {}
    for row in _ask(run, "serving_timeline"):
        sections = [row["section"]]
        if row["section"] in ("attention", "ffn"):
            sections.append("transformer")
        for section in sections:
            devices = found.setdefault((section, row["phase"]), {})
            total = devices.setdefault(_device(row), [0.0, 0.0])
            total[0] += row["step_span_ns"] or 0
            total[1] += row["span_pct"] or 0
    return _by_phase(found)


def _by_phase(found: dict[Key, dict[_Device, list[float]]]) -> Figures:
    """Return phase, ms per step and share; no time where the trace marks no steps."""
    figures: Figures = []
    for (*key, phase), devices in found.items():
        time_ms = fmean(total[0] for total in devices.values()) / NS_PER_MS
        share_pct = fmean(total[1] for total in devices.values())
        figures.append((tuple(key), (phase, time_ms or None, share_pct)))
    return figures


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
    "table8": Measure("modules", ("phase",), (("attention_ms", "DOUBLE"),), _attention),
    "table9": Measure("methods", (), _THROUGHPUT, _throughput),
    "table10": Measure("serving_modules", ("part", "task"), _SERVING, _serving_modules),
    "table11": Measure("serving_timeline", ("section",), _SERVING, _serving_timeline),
    "table12": Measure("gemms", ("n", "k"), _PRODUCT, _first_gemm),
    "table13": Measure("gemm_share", ("phase",), (("gemm_pct", "DOUBLE"),), _gemm_share),
    "table14": Measure("memcpy_steps", (), _TIME, _copies),
    "table15": Measure("communication", (), _TIME, _all_reduce),
    "table16": Measure("communication", (), _TIME, _all_communication),
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


def _device(row: dict[str, Any]) -> _Device:
    return row["rank"], row["device"]


def _step_counts(run: OurRun) -> dict[_Device, int]:
    """Return how many steps each device of a run did.

    Raises:
        TraceError: the traces mark no steps.
    """
    counts: dict[_Device, int] = {}
    for row in _ask(run, "steps"):
        if row["step"] is not None:
            counts[_device(row)] = counts.get(_device(row), 0) + 1
    if not counts:
        raise TraceError("the trace marks no steps")
    return counts
