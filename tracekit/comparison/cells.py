"""One side of a comparison: its time, split into cells, per sample and per unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from tracekit import palette
from tracekit.analysis.catalog import load_catalog
from tracekit.errors import UsageError
from tracekit.trace import Trace

Per = Literal["step", "window", "layer", "token", "request"]
"""Unit of figures: a step of one device, a device window, a model layer, a token, or a request."""

PARTS = tuple(part.name for part in palette.PARTS)
"""Categories of device time, in the order of the split."""

_COVERED_BY_STEPS_PCT = 50

OUTSIDE_WINDOW = ("before_first_work", "behind_last_work")
"""Causes of idle time in the part of a step outside its device's window."""

Device = tuple[int | None, str]

Key = tuple[str, str, str, str, str | None, str | None, str | None]
"""Part, class, phase, module, op, shape, and name of a cell."""

_SUMMED = """
WITH split AS MATERIALIZED (SELECT row_number() OVER () AS place, * FROM ({split}))
SELECT
    min(place) AS place,
    step, part, class, phase, module_path, op, shape, name,
    NULL AS rank, NULL AS device,
    sum(kernel_count)::BIGINT, sum(kernel_ns)::BIGINT, sum(wall_ns)::BIGINT
FROM split
GROUP BY step, part, class, phase, module_path, op, shape, name
UNION ALL
SELECT
    NULL, step, NULL, if(bool_and(class IN {causes}), 'outside', NULL), NULL, NULL, NULL, NULL,
    NULL, rank, device, NULL, NULL, NULL
FROM split
GROUP BY step, rank, device
ORDER BY place NULLS LAST
"""


class Cell(Struct):
    """Time of one kind at one location, summed over all samples; columns as in analysis `split`.

    `samples` maps the index of each sample to its time, ns.
    """

    part: str
    class_name: str
    phase: str
    module: str
    op: str | None
    shape: str | None
    name: str | None
    kernel_count: int = 0
    kernel_ns: int = 0
    wall_ns: int = 0
    samples: dict[int, int] = field(default_factory=dict)


class ModuleNode(Struct, frozen=True):
    path: str
    parent: str | None
    class_name: str | None


class Side(Struct, frozen=True):
    """Time of one side of a comparison. Displayed figures are sums divided by `unit_count`.

    `sample_units` is the number of units in each sample. `outside_ns` is device time before the
    first step and after the last.
    """

    label: str
    per: Per
    cells: Sequence[Cell]
    modules: Mapping[str, ModuleNode]
    unit_count: int
    device_count: int
    run_count: int
    sample_names: Sequence[str]
    sample_units: Sequence[int]
    outside_ns: int
    total_ns: int

    def series(self, cells: Iterable[Cell]) -> list[float]:
        """Return the time of cells in each sample, ns per unit."""
        sums = [0] * len(self.sample_units)
        for cell in cells:
            for sample, wall_ns in cell.samples.items():
                sums[sample] += wall_ns
        return [total / units for total, units in zip(sums, self.sample_units, strict=True)]


class SplitRow(Struct, frozen=True):
    step: int | None
    key: Key
    kernel_count: int
    kernel_ns: int
    wall_ns: int


class SplitRows(Struct, frozen=True):
    """Cells of one run, and the devices in each step.

    `idle_only` are devices that are idle for the complete step: their last work ended earlier.
    """

    rows: Sequence[SplitRow]
    devices: Sequence[tuple[int | None, Device]]
    idle_only: frozenset[tuple[int | None, Device]]


class Reading(Struct, frozen=True):
    """One side before units are chosen.

    `step_count` is the smallest number of steps of a run; 0 if steps cover less than half the time.
    """

    label: str
    runs: Sequence[SplitRows]
    modules: Mapping[str, ModuleNode]
    step_count: int
    unit_counts: Sequence[Mapping[int, int] | int | None]

    @property
    def has_steps(self) -> bool:
        return self.step_count > 1


def read(traces: Sequence[Trace], label: str, per: Per | None = None) -> Reading:
    runs = []
    modules: dict[str, ModuleNode] = {}
    inside_ns = all_ns = 0
    step_counts = []
    for trace in traces:
        split = split_rows(trace)
        runs.append(split)
        all_ns += sum(row.wall_ns for row in split.rows)
        inside_ns += sum(row.wall_ns for row in split.rows if row.step is not None)
        step_counts.append(len({row.step for row in split.rows} - {None}))
        for row in trace.query("modules", rollup=True).to_dicts():
            if row["source"] is not None:
                node = ModuleNode(row["module_path"], row["parent_path"], row["module_class"])
                modules.setdefault(node.path, node)
    return Reading(
        label,
        runs,
        modules,
        min(step_counts) if 100 * inside_ns >= _COVERED_BY_STEPS_PCT * max(all_ns, 1) else 0,
        [_unit_count(trace, per) for trace in traces],
    )


def split_rows(trace: Trace) -> SplitRows:
    """Query a run for the cells of each step over all devices, in the order of analysis `split`."""
    ((has_traces,),) = trace.sql("SELECT EXISTS (FROM trace)")
    if not has_traces:
        trace.query("split")  # Raises an error with the reason.
    statement = load_catalog().analyses["split"].sql.strip().rstrip(";")
    rows: list[SplitRow] = []
    devices: list[tuple[int | None, Device]] = []
    idle_only: set[tuple[int | None, Device]] = set()
    for place, step, *rest in trace.sql(_SUMMED.format(split=statement, causes=OUTSIDE_WINDOW)):
        if place is not None:
            part, class_name, phase, module, op, shape, name, _, _, *sums = rest
            key = (part, class_name, phase, module, op, shape, name)
            rows.append(SplitRow(step, key, *sums))
        else:
            device = step, (rest[7], rest[8])
            devices.append(device)
            if rest[1] is not None:
                idle_only.add(device)
    return SplitRows(rows, devices, frozenset(idle_only))


def usual_per(base: Reading, new: Reading) -> Per:
    """Return the default unit: steps if they cover most of both sides, else windows.

    The windows of two sides with one step each are alike.
    """
    counts = base.step_count, new.step_count
    return "step" if min(counts) > 0 and max(counts) > 1 else "window"


def make_side(reading: Reading, per: Per, skip: int = 0) -> Side:
    """Sum the data of one side and divide it by its units."""
    is_stepped = per == "step" or (per != "window" and reading.has_steps)
    if per == "step" and not any(row.step is not None for run in reading.runs for row in run.rows):
        raise UsageError(
            f"{reading.label} has no marked steps",
            hint="use --per window to compare the complete window",
        )
    cells: dict[Key, Cell] = {}
    counted: list[tuple[tuple[int, int | None], SplitRow]] = []
    sample_devices: dict[tuple[int, int | None], set[Device]] = {}
    outside_ns = 0
    for run, split in enumerate(reading.runs):
        # Steps are sorted; the first ones are skipped.
        steps = sorted({row.step for row in split.rows if row.step is not None})
        included = set(steps[skip:])
        for row in split.rows:
            if is_stepped and row.step not in included:
                outside_ns += row.wall_ns
            elif is_stepped or row.key[1] not in OUTSIDE_WINDOW:
                counted.append(((run, row.step if is_stepped else None), row))
        for step, device in split.devices:
            if is_stepped or (step, device) not in split.idle_only:
                sample = run, step if is_stepped else None
                sample_devices.setdefault(sample, set()).add(device)
    order = sorted({sample for sample, _ in counted}, key=lambda one: (one[0], one[1] or 0))
    samples = {sample: number for number, sample in enumerate(order)}
    for sample, row in counted:
        cell = cells.setdefault(row.key, Cell(*row.key))
        cell.kernel_count += row.kernel_count
        cell.kernel_ns += row.kernel_ns
        cell.wall_ns += row.wall_ns
        number = samples[sample]
        cell.samples[number] = cell.samples.get(number, 0) + row.wall_ns
    if not cells:
        missing = "step left" if is_stepped else "known device work"
        raise UsageError(
            f"{reading.label} has no {missing} to compare",
            hint="use --skip with a smaller number"
            if skip and is_stepped
            else "tracekit query health shows the reason",
        )
    units = [
        len(sample_devices[run, step]) * _factor(reading, per, run=run, step=step)
        for run, step in order
    ]
    devices = {(sample[0], device) for sample in order for device in sample_devices[sample]}
    return Side(
        reading.label,
        per,
        list(cells.values()),
        reading.modules,
        sum(units),
        len(devices),
        len(reading.runs),
        [
            ("" if len(reading.runs) == 1 else f"run {run + 1}, ")
            + ("window" if step is None else f"step {step}")
            for run, step in order
        ],
        units,
        outside_ns,
        sum(cell.wall_ns for cell in cells.values()),
    )


def _factor(reading: Reading, per: Per, *, run: int, step: int | None) -> int:
    if per in ("step", "window"):
        return 1
    result = reading.unit_counts[run]
    if isinstance(result, Mapping):
        result = sum(result.values()) if step is None else result.get(step)
    # Tokens are per step, requests per run.
    elif per != "layer" and (per == "token") != (step is not None):
        result = None
    if not result:
        raise UsageError(
            f"{reading.label}: the number of {per}s is unknown"
            + ("" if step is None else f" in step {step}"),
            hint="use --per step or --per window, which need only the trace",
        )
    return result


_COUNTS = {
    "layer": "SELECT count(DISTINCT layer) FROM module WHERE layer IS NOT NULL",
    "request": "SELECT count(DISTINCT request_id) FROM request_step",
}


def _unit_count(trace: Trace, per: Per | None) -> Mapping[int, int] | int | None:
    if per not in _COUNTS:
        return _tokens(trace) if per == "token" else None
    ((count,),) = trace.sql(_COUNTS[per])
    return count or None


def _tokens(trace: Trace) -> Mapping[int, int] | int | None:
    served = {
        row["step"]: row["prefill_token_count"] + row["decode_token_count"]
        for row in trace.query("serving_steps").to_dicts()
        if None not in (row["step"], row["prefill_token_count"], row["decode_token_count"])
    }
    if any(served.values()):
        return served
    for row in trace.sql(
        "SELECT batch_size * sequence_length * coalesce(gradient_accumulation, 1) FROM run"
    ):
        return row[0] or None
    return None
