"""Charts for arXiv 2311.03687: its Figure 5 drawn from these runs, and its published numbers.

Figure 5 shows the parts of a decoder layer with and without recomputation. It requires the traces
of each pre-training run for analysis `roles`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from tracekit.analysis.result import Result, columns_of_text
from tracekit.errors import TracekitError
from tracekit.palette import SLATE, series
from tracekit.plot import Chart
from tracekit.plot._encoding import Drawing, bars, colours, fixed, joined, names
from tracekit.trace import Trace

NAME = "decoder_roles"

ROLES = (
    *("QKV", "RoPE", "Bmm0", "Softmax", "Bmm1", "Attention", "other in attention"),
    *("Output", "MLP", "RMSNorm"),
)
"""Parts of a decoder layer, by their names in analysis roles."""

PHASES = ("forward", "backward")
"""Phases in the chart. As in the paper, recomputation is omitted."""

MAX_RUNS = 8

RECOMPUTATION = "R"

_COLUMNS = columns_of_text(
    "run VARCHAR, method VARCHAR, batch_size BIGINT, phase VARCHAR, role VARCHAR, "
    "kernel_ns BIGINT, wall_ns BIGINT, phase_pct DOUBLE"
)


class Decoder(Struct, frozen=True):
    """Decoder layers of the runs.

    Attributes:
        rows: rows of analysis roles for the first device of each run, with the run.
        folders: the folders of the runs.
        why_not: the reasons for missing rows.
    """

    rows: Result
    folders: tuple[str, ...] = ()
    why_not: tuple[str, ...] = field(default=())


def decoder_of(runs: Trace, roles_of: Callable[[str], Result]) -> Decoder | None:
    """Return the decoder layers of the pre-training runs, or None if there is no such run."""
    result = runs.sql(
        "SELECT path, folder_name AS run, opt AS method, batch_size FROM run "
        "WHERE stage = 'pretrain' ORDER BY rowid"
    ).to_dicts()
    if not result:
        return None
    for run in result:
        run["method"] = run["method"] or "Naive"
    with_it = [run for run in result if RECOMPUTATION in run["method"].split("+")]
    without = [run for run in result if run not in with_it]
    nothing = Result(NAME, _COLUMNS, [])
    if not with_it or not without:
        there = "use" if with_it else "do not use"
        return Decoder(
            nothing,
            why_not=(f"It compares runs with and without recomputation, but all runs {there} it.",),
        )
    half = MAX_RUNS // 2
    chosen = [*without[: max(half, MAX_RUNS - len(with_it))]]
    chosen += with_it[: MAX_RUNS - len(chosen)]
    rows: list[tuple[Any, ...]] = []
    why_not = []
    for run in chosen:
        try:
            rows += _rows(run, roles_of(run["path"]))
        except TracekitError as error:
            why_not.append(f"{run['run']} is missing: {error.message}")
    if omitted := len(result) - len(chosen):
        why_not.append(f"{omitted:,} more runs are omitted; see tracekit query roles RUN.")
    folders = tuple(str(Path(run["path"])) for run in chosen)
    return Decoder(Result(NAME, _COLUMNS, rows), folders, tuple(why_not))


def _rows(run: dict[str, Any], roles: Result) -> list[tuple[Any, ...]]:
    """Return the rows of the first device, because data-parallel ranks do the same work."""
    rows = roles.to_dicts()
    first = next(((row["rank"], row["device"]) for row in rows), None)
    return [
        (
            *(run["run"], run["method"], run["batch_size"], row["phase"], row["role"]),
            *(row["kernel_ns"], row["wall_ns"], row["phase_pct"]),
        )
        for row in rows
        if (row["rank"], row["device"]) == first and row["phase"] in PHASES and row["role"] in ROLES
    ]


def decoder_chart(rows: Result) -> Chart | None:
    """Return a chart with a bar per run and phase, divided into the parts of a layer."""
    every = rows.to_dicts()
    label, name_of = joined("phase", "method", "run")
    sums: dict[str, float] = {}
    for row in every:
        sums[name_of(row)] = sums.get(name_of(row), 0) + row["phase_pct"]
    order = sorted(sums, key=lambda name: (name[0] != "f", name))
    drawn = bars(
        "Parts of the decoder layers, with (R) and without recomputation",
        [{"sum": sums[name]} for name in order],
        y=names("which", order),
        x=("phase_pct", "sum", "time of the phase"),
        colour=colours(
            "role", series([r for r in ROLES if any(row["role"] == r for row in every)])
        ),
        tip=("run", "method", "batch_size", "phase", "role", "phase_pct", "wall_ns"),
        transform=[label],
        stack="zero",
    )
    return None if drawn is None else _chart(drawn, NAME, NAME, rows)


def missing(decoder: Decoder, chart: Chart | None) -> Sequence[str]:
    """Return the reasons for a missing chart or missing parts of it."""
    if chart is None and not decoder.why_not:
        return ("The traces of these runs do not contain the parts of a decoder layer.",)
    return decoder.why_not


_PARTS = (
    ("tokens_per_s", "tokens of all ranks", "tokens/s"),
    ("memory_gb", "peak memory of a GPU as printed, GB", "peak memory"),
)


def paper_charts(published: Result, name: str, source: str) -> Iterator[Chart]:
    """Yield charts of a published table of methods on one platform."""
    label, name_of = joined("model", "method")
    for column, axis, title in _PARTS:
        rows = [row for row in published.to_dicts() if row[column] is not None]
        drawn = bars(
            f"The paper's {source}: {title}",
            rows,
            y=names("which", [name_of(row) for row in rows]),
            x=(column, column, axis),
            colour=fixed(SLATE),
            tip=("which", "platform", "tokens_per_s", "memory_gb"),
            transform=[{"filter": {"field": column, "valid": True}}, label],
        )
        if drawn is not None:
            yield _chart(drawn, f"{name}_{column}", name, published)


def _chart(drawn: Drawing, name: str, data: str, rows: Result) -> Chart:
    return Chart(name, drawn.title, {"data": {"name": data}, **drawn.spec}, {data: rows})
