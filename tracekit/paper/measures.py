"""The figures of the paper's tables, taken from our runs: from manifests, and from analyses.

Times are per step: what the traces of a run hold, over the number of its steps, as the mean over
its ranks. GB are 1e9 bytes.

Of a run that had only some layers, analysis `whole_steps` has what the whole model would take, the
means of what `layers`, `role_layers` and `serving_layers` tell of each device: time in modules of
layers, times the layers of the paper's model over those that ran, and the rest. Where a part of the
rest is in no module, the trace does not tell whether it grows with the layers; then there are two
ends, as if it stayed, and as if it grew. Extrapolated are the times of phases, modules, copies and
communication, and those shares whose every part is known. What is not:

- shares of the step (tables 5, 7, 14 to 16): the optimizer's part of the step is not told;
- tokens/s and memory (tables 2, 3, 4, 9), which rest on the whole step and on what no trace tells;
- the attention of one layer and the product of one shape (tables 8 and 12), which do not depend on
  the number of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tracekit.errors import TraceError
from tracekit.paper.runs import OurRun
from tracekit.paper.tables import Cell
from tracekit.units import NS_PER_MS, NS_PER_S

Key = tuple[Cell, ...]
Figures = list[tuple[Key, tuple[Cell, ...]]]
_Row = dict[str, Any]

_BYTES_PER_GB = 1e9


@dataclass(frozen=True, slots=True)
class Whole:
    """A figure of the whole model: at least and at most, or the reason why there is none."""

    low: float | None
    high: float | None
    reason: str | None = None


Wholes = dict[Key, dict[str, Whole]]
"""The figures of the whole model by key, and by name."""


@dataclass(frozen=True, slots=True)
class _InWhole:
    """Where `whole_steps` has the figures of a table: its rows of a source, and their key there.

    `figures` are, by name, the unit of a time (else it is a share), and the work of its rows if
    that is not part of the key.
    """

    source: str
    key: tuple[str, ...]
    figures: Mapping[str, tuple[int | None, str | None]]
    keep: Callable[[_Row], bool] = lambda _row: True


@dataclass(frozen=True, slots=True)
class Measure:
    """How to take the figures of one table from a run.

    `key` names the columns of the paper's table that tell its rows apart within one run; `figures`
    are name and DuckDB type of what is taken, named as the paper's columns where it is the same.
    `take` returns a list of keys with their figures, or raises a `TracekitError` that says why
    there are none. `source` is the analysis to ask for more. `by` names figures that tell further
    rows of one key apart. `not_extrapolated` is the reason why no figure is extrapolated.
    """

    source: str
    key: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]
    take: Callable[[OurRun], Figures]
    in_whole: _InWhole | None = None
    by: tuple[str, ...] = ()
    not_extrapolated: str | None = None

    @property
    def whole_figures(self) -> tuple[str, ...]:
        """The figures that can be extrapolated to a whole model."""
        return tuple(self.in_whole.figures) if self.in_whole else ()


def extrapolate(measure: Measure, run: OurRun) -> Wholes:
    """Return what the whole model would take, of a run with cut layers.

    The key is that of the figures, followed by those that `by` names.
    """
    place = measure.in_whole
    if place is None or run.whole_layer_count is None:
        return {}
    found: Wholes = {}
    for row in run.ask("whole_steps", layers=run.whole_layer_count).to_dicts():
        if row["source"] != place.source or not place.keep(row):
            continue
        # The paper's last row is what is neither computation nor communication: copies and idle.
        if row["work_group"] == "rest":
            row["work_group"] = "other"
        figures = found.setdefault(tuple(row[name] for name in place.key), {})
        for name, (unit_ns, work) in place.figures.items():
            # Without marked steps of serving there is no time of a step.
            is_timed = unit_ns is None or place.source != "serving_layers" or row["has_steps"]
            if work in (None, row["work"]) and is_timed:
                figures[name] = _whole(run, row, unit_ns)
    return found


def _whole(run: OurRun, row: _Row, unit_ns: int | None) -> Whole:
    for layer_count in (row["least_layer_count"], row["most_layer_count"]):
        if layer_count not in (None, run.layer_count):
            told = f"the trace tells {layer_count} of the {run.layer_count} layers that ran"
            return Whole(None, None, told)
    unit = "pct" if unit_ns is None else "step_ns"
    low, high = row[f"whole_{unit}"], row[f"whole_max_{unit}"]
    if low is None or high is None:
        return Whole(None, None, row["reason"] or "what it is a share of is not told")
    return Whole(_amount(low, unit_ns), _amount(high, unit_ns))


def _amount(value: Any, unit_ns: int | None) -> Any:
    """Return a time in its unit; whatever has none as it is."""
    return value if value is None or unit_ns is None else value / unit_ns


def _ask(run: OurRun, name: str) -> list[_Row]:
    if not run.manifest.traces:
        raise TraceError("the run has no trace")
    return run.ask(name).to_dicts()


def _ask_of_steps(run: OurRun, name: str) -> list[_Row]:
    """Return the rows of an analysis whose figures are per step.

    Raises:
        TraceError: the traces mark no steps, or the run has none.
    """
    rows = _ask(run, name)
    if not rows:
        raise TraceError("the trace marks no steps")
    return rows


def _of(
    analysis: str,
    key: tuple[str, ...],
    figures: Mapping[str, int | None],
    keep: Callable[[_Row], bool] = lambda _row: True,
    ask: Callable[[OurRun, str], list[_Row]] = _ask_of_steps,
) -> Callable[[OurRun], Figures]:
    """Return a way to take figures from the rows of an analysis: its columns with their units."""

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
    """Return a way to take seconds per step and share of it; what no step has takes no time."""
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
    found = _ask(run, name)
    if not found:
        # Of a trace without steps, that is the reason; of one with steps, its names are.
        _ask_of_steps(run, "transfer_steps")
        raise TraceError("the trace names no attention modules")
    return found


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


def _is_of_pass(row: _Row) -> bool:
    return row["phase"] in ("forward", "backward")


def _serving_modules(run: OurRun, name: str) -> list[_Row]:
    """The paper's last row is what is neither computation nor communication: copies and idle."""
    return [
        row | {"part": "other" if row["task_group"] == "rest" else row["task_group"]}
        for row in _ask(run, name)
        if row["task_group"] != "rest" or row["task"] == "(all)"
    ]


def _figures(*names: str, **types: str) -> tuple[tuple[str, str], ...]:
    """Return names with types: those of the paper's figures, DOUBLE if nothing else is said."""
    return tuple((name, "DOUBLE") for name in names) + tuple(types.items())


def _training(take: Callable[[OurRun], Figures], work: str) -> Measure:
    in_whole = _InWhole("layers", (), {"time_s": (NS_PER_S, work)})
    return Measure("transfer_steps", (), _figures("time_s", "step_pct"), take, in_whole)


_METHODS = Measure(
    "methods",
    (),
    _figures(
        *("tokens_per_s", "tokens_per_s_std", "memory_gb"), batch_size="BIGINT", outcome="VARCHAR"
    ),
    _throughput,
    not_extrapolated=(
        "tokens/s and memory are those of the layers that ran; what the whole needs is not told"
    ),
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
    _InWhole(
        "layers",
        ("phase",),
        {"overall_ms": (NS_PER_MS, "span"), "compute_kernel_ms": (NS_PER_MS, "compute")},
    ),
)
_SERVING = (("phase", "VARCHAR"), *_figures("time_ms", "pass_pct"))
_SERVING_WHOLE = {"time_ms": (NS_PER_MS, None), "pass_pct": (None, None)}

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
        _InWhole(
            "role_layers",
            ("phase", "work"),
            {"time_ms": (NS_PER_MS, None), "phase_pct": (None, None)},
        ),
    ),
    "table7": _PHASES,
    "table8": Measure(
        "attention_layers",
        ("phase",),
        _figures("attention_ms"),
        _of("attention_layers", ("phase",), {"step_wall_ns": NS_PER_MS}, ask=_attention),
        not_extrapolated="the time is that of one layer, however many there are",
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
        _InWhole(
            "serving_layers",
            ("work_group", "work", "phase"),
            _SERVING_WHOLE,
            lambda row: row["work_group"] != "timeline",
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
        _InWhole(
            "serving_layers",
            ("work", "phase"),
            _SERVING_WHOLE,
            lambda row: row["work_group"] == "timeline",
        ),
        by=("phase",),
    ),
    "table12": Measure(
        "gemm_totals",
        ("n", "k"),
        (("m", "BIGINT"), *_figures("time_ms", "peak_pct")),
        _first_gemm,
        not_extrapolated=(
            "a product of one shape takes the same time, however many layers there are"
        ),
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
        _InWhole("layers", ("phase",), {"gemm_pct": (None, "gemm")}),
    ),
    "table14": _training(_of_transfers("memcpy", "(all)"), "copies"),
    "table15": _training(_of_transfers("comm", "comm_allreduce"), "all-reduce"),
    "table16": _training(_of_transfers("comm", "(all)"), "communication"),
}
"""How each table is measured; the figures of the paper's plots are not."""
