"""What the whole model would take, of which a run had only some layers: extrapolated by analyses.

The figures come from analysis `whole_steps`, the means of what `layers`, `role_layers` and
`serving_layers` tell of each device: time in modules of layers, times the layers of the paper's
model over those that ran, and the rest. Where a part of the rest is in no module, the trace does
not tell whether it grows with the layers; then there are two ends, as if it stayed, and as if it
grew.

What is extrapolated: the times of phases, modules, copies and communication, and those shares whose
every part is known, from the extrapolated parts. What is not:

- shares of the step (tables 5, 7, 14 to 16): the optimizer's part of the step is not told;
- tokens/s and memory (tables 2, 3, 4, 9), which rest on the whole step and on what no trace tells;
- the attention of one layer and the product of one shape (tables 8 and 12), which do not depend on
  the number of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tracekit.paper.runs import OurRun
from tracekit.paper.tables import Cell
from tracekit.units import NS_PER_MS, NS_PER_S

_Key = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """A figure of the whole model: at least and at most, or the reason why there is none."""

    low: float | None
    high: float | None
    reason: str | None = None


Wholes = dict[_Key, dict[str, Whole]]
"""The figures of a run by key, as those of `measures`, and by name."""


@dataclass(frozen=True, slots=True)
class Extrapolation:
    """How the figures of one table are extrapolated.

    `figures` are the names of those that can be; `take` returns them for a run with cut layers, or
    raises a `TracekitError`. `by` names figures that tell further rows of one key apart: their
    values follow those of the key.
    """

    figures: tuple[str, ...]
    take: Callable[[OurRun], Wholes]
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a figure is in a row of an analysis: columns of both ends, and their unit here."""

    low: str
    high: str
    told: Callable[[float], float]


_MS = _Source("whole_step_ns", "whole_max_step_ns", lambda ns: ns / NS_PER_MS)
_SECONDS = _Source("whole_step_ns", "whole_max_step_ns", lambda ns: ns / NS_PER_S)
_SHARE = _Source("whole_pct", "whole_max_pct", lambda pct: pct)


def _phases(run: OurRun) -> Wholes:
    rows = _rows_of(run, "layers")
    spans = _wholes(run, rows, "overall_ms", _MS, ("phase",), work="span")
    return _merged(spans, _wholes(run, rows, "compute_kernel_ms", _MS, ("phase",), work="compute"))


def _roles(run: OurRun) -> Wholes:
    rows = _rows_of(run, "role_layers")
    found = _wholes(run, rows, "time_ms", _MS, ("phase", "work"))
    return _merged(found, _wholes(run, rows, "phase_pct", _SHARE, ("phase", "work")))


def _gemm_share(run: OurRun) -> Wholes:
    rows = _rows_of(run, "layers")
    return _wholes(run, rows, "gemm_pct", _SHARE, ("phase",), work="gemm")


def _of_step(work: str) -> Callable[[OurRun], Wholes]:
    def take(run: OurRun) -> Wholes:
        return _wholes(run, _rows_of(run, "layers"), "time_s", _SECONDS, (), work=work)

    return take


def _serving_modules(run: OurRun) -> Wholes:
    """The paper's last row is what is neither computation nor communication: copies and idle."""
    rows = [row for row in _rows_of(run, "serving_layers") if row["work_group"] != "timeline"]
    for row in rows:
        row["work_group"] = "other" if row["work_group"] == "rest" else row["work_group"]
    return _serving(run, rows, ("work_group", "work", "phase"))


def _serving_timeline(run: OurRun) -> Wholes:
    rows = [row for row in _rows_of(run, "serving_layers") if row["work_group"] == "timeline"]
    return _serving(run, rows, ("work", "phase"))


def _serving(run: OurRun, rows: list[dict[str, Any]], key: tuple[str, ...]) -> Wholes:
    # Without marked steps there is no time of a step, neither ours nor of the whole.
    timed = [row for row in rows if row["has_steps"]]
    found = _wholes(run, timed, "time_ms", _MS, key)
    return _merged(found, _wholes(run, rows, "pass_pct", _SHARE, key))


EXTRAPOLATIONS: dict[str, Extrapolation] = {
    "table5": Extrapolation(("overall_ms", "compute_kernel_ms"), _phases),
    "table6": Extrapolation(("time_ms", "phase_pct"), _roles),
    "table7": Extrapolation(("overall_ms", "compute_kernel_ms"), _phases),
    "table10": Extrapolation(("time_ms", "pass_pct"), _serving_modules, by=("phase",)),
    "table11": Extrapolation(("time_ms", "pass_pct"), _serving_timeline, by=("phase",)),
    "table13": Extrapolation(("gemm_pct",), _gemm_share),
    "table14": Extrapolation(("time_s",), _of_step("copies")),
    "table15": Extrapolation(("time_s",), _of_step("all-reduce")),
    "table16": Extrapolation(("time_s",), _of_step("communication")),
}
"""How each table is extrapolated; the figures of the others are not."""

_THROUGHPUT = (
    "tokens/s and memory are those of the layers that ran; what the whole needs is not told"
)
NOT_EXTRAPOLATED = {
    "table2": _THROUGHPUT,
    "table3": _THROUGHPUT,
    "table4": _THROUGHPUT,
    "table8": "the time is that of one layer, however many there are",
    "table9": _THROUGHPUT,
    "table12": "a product of one shape takes the same time, however many layers there are",
}
"""Why the figures of the other tables are not extrapolated."""


def _rows_of(run: OurRun, source: str) -> list[dict[str, Any]]:
    rows = run.ask("whole_steps", layers=run.whole_layer_count).to_dicts()
    return [row for row in rows if row["source"] == source]


def _wholes(
    run: OurRun,
    rows: Iterable[Mapping[str, Any]],
    figure: str,
    source: _Source,
    key: tuple[str, ...],
    work: str | None = None,
) -> Wholes:
    """Return one figure by key."""
    return {
        tuple(row[name] for name in key): {figure: _whole(run, row, source)}
        for row in rows
        if work in (None, row["work"])
    }


def _whole(run: OurRun, row: Mapping[str, Any], source: _Source) -> Whole:
    for layer_count in (row["least_layer_count"], row["most_layer_count"]):
        if layer_count not in (None, run.layer_count):
            told = f"the trace tells {layer_count} of the {run.layer_count} layers that ran"
            return Whole(None, None, told)
    low, high = row[source.low], row[source.high]
    if low is None or high is None:
        return Whole(None, None, row["reason"] or "what it is a share of is not told")
    return Whole(source.told(low), source.told(high))


def _merged(*parts: Wholes) -> Wholes:
    found: Wholes = {}
    for part in parts:
        for key, figures in part.items():
            found.setdefault(key, {}).update(figures)
    return found
