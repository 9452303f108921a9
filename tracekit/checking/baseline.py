"""Baselines: compact summaries of runs, small enough to commit.

A baseline is one JSON file. It has the time of every step by part, class, phase, module, and op,
and the setup, health, and main figures of the run. For serving runs, it has the sorted latencies of
requests. Without events, kernel names, and shapes, it takes only tens of kB. It has one line per
location, so that diffs are readable.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct, field

from tracekit.analysis.result import Result, columns_of_text
from tracekit.checking.measured import Measured
from tracekit.comparison.cells import PARTS, Cell, ModuleNode, Per, Side
from tracekit.comparison.quantiles import Ordered, is_enough
from tracekit.comparison.serving import QUANTILES
from tracekit.comparison.setup import Facts, Weight
from tracekit.errors import StoreError, UsageError
from tracekit.small_files import parse_json, read_small
from tracekit.storage import Location

SUFFIX = ".baseline.json"
DEFAULT_FOLDER = Path(".tracekit") / "baselines"
"""Default folder of baselines, relative to the current folder."""

Folder = str | Path | Location
"""Folder of baselines: a path, or the URL of an object store or web server."""

_SMALL_PPM = 100
"""Ops with a smaller share of the total time are combined, ppm."""

_OF_SIDE = (
    *("label", "per", "unit_count", "device_count", "run_count", "sample_names", "sample_units"),
    *("outside_ns", "total_ns"),
)
"""Attributes of a side that are saved unchanged."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MAX_MODULE_DEPTH = 500


class Baseline(Measured, frozen=True):
    """A saved run, labeled with its name. Only the latencies that comparisons need are saved."""

    side: Side
    facts: Facts = field(default_factory=dict)
    created_at: str = ""


def save(baseline: Baseline, folder: Folder, *, replaces: bool = True) -> tuple[Location, int]:
    """Write a baseline atomically; return its location and size in bytes."""
    place = path_of(baseline.label, folder)
    side = baseline.side
    document = {
        "tracekit_baseline": 1,
        "name": baseline.label,
        "created_at": baseline.created_at,
        **{name: getattr(side, name) for name in _OF_SIDE},
        "figures": dict(baseline.figures),
        "tokens_per_s_of_repeats": list(baseline.repeats),
        "plain_step_ns": list(baseline.step_ns),
        "health": dict(baseline.health),
    }
    lists: dict[str, Sequence[object]] = {
        "facts": [[*key, *value] for key, value in sorted(baseline.facts.items())],
        "modules": [[one.path, one.parent, one.class_name] for one in side.modules.values()],
        "cells": [_row(cell, len(side.sample_units)) for cell in _saved_cells(side)],
    }
    if baseline.latencies:
        lists["latencies_ns"] = [
            [metric, one.count, one.values, one.places]
            for metric, one in sorted(baseline.latencies.items())
        ]
    lines = [f'"{key}": {json.dumps(value)}' for key, value in document.items()]
    for key, values in lists.items():
        inside = ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)
        lines.append(f'"{key}": [\n{inside}\n]')
    data = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    try:
        (place.write_bytes if replaces else place.write_new)(data)
    except FileExistsError as error:
        raise UsageError(
            f"{place}: baseline {baseline.label!r} already exists", hint="--force replaces it"
        ) from error
    except OSError as error:
        raise StoreError(f"{place}: cannot be written: {error.strerror or error}") from error
    return place, len(data)


def load(name: str, folder: Folder) -> Baseline:
    """Load a baseline by name, or by the path or URL of its file."""
    place = Location.of(name) if is_file_of_one(name) else path_of(name, folder)
    try:
        return _read_content(msgspec.convert(parse_json(read_small(place)), _Document))
    except FileNotFoundError as error:
        known = ", ".join(names(place.parent)) or "none"
        raise UsageError(
            f"no baseline named {name!r}",
            hint=f"baselines in {place.parent}: {known}; see tracekit check baseline save",
        ) from error
    except OSError as error:
        raise StoreError(f"{place}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(
            f"{place}: not a baseline of this version of tracekit: {error}",
            hint="create it again: tracekit check baseline save",
        ) from error


def is_file_of_one(text: str) -> bool:
    """Return whether a string is the path or URL of a baseline file. URLs may be signed."""
    return text.partition("?")[0].endswith(SUFFIX)


def names(folder: Folder) -> list[str]:
    place = Location.of(folder)
    try:
        entries = place.entries()
    except OSError as error:
        raise StoreError(f"{place}: cannot be listed: {error.strerror or error}") from error
    return sorted(one.name.removesuffix(SUFFIX) for one in entries if one.name.endswith(SUFFIX))


def path_of(name: str, folder: Folder) -> Location:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid baseline name", hint="use letters, digits, . _ and -"
        )
    return Location.of(folder) / (name + SUFFIX)


def _saved_cells(side: Side) -> list[Cell]:
    """Return the cells without shapes or kernel names, in a stable order.

    Ops with very little time are combined per part, class, phase, and module. Sums are unchanged.
    """
    summed: dict[tuple[str, str, str, str, str | None], Cell] = {}
    of_op: dict[tuple[str, str, str, str, str | None], int] = {}
    for cell in side.cells:
        key = cell.part, cell.class_name, cell.phase, cell.module, cell.op
        of_op[key] = of_op.get(key, 0) + cell.kernel_ns
    small_ns = side.total_ns * _SMALL_PPM // 1_000_000
    for cell in side.cells:
        key = cell.part, cell.class_name, cell.phase, cell.module, cell.op
        if of_op[key] < small_ns:
            key = (*key[:4], None)
        into = summed.setdefault(key, Cell(*key, None, None))
        into.kernel_count += cell.kernel_count
        into.kernel_ns += cell.kernel_ns
        into.wall_ns += cell.wall_ns
        for sample, wall_ns in cell.samples.items():
            into.samples[sample] = into.samples.get(sample, 0) + wall_ns
    order = {part: number for number, part in enumerate(PARTS)}
    return sorted(
        summed.values(),
        key=lambda one: (order[one.part], one.class_name, one.phase, one.module, one.op or ""),
    )


def _row(cell: Cell, sample_count: int) -> list[Any]:
    samples = [cell.samples.get(sample, 0) for sample in range(sample_count)]
    place = [cell.part, cell.class_name, cell.phase, cell.module, cell.op]
    return [*place, cell.kernel_count, cell.kernel_ns, samples]


_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Units = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
_Figure = Annotated[float, msgspec.Meta(ge=0)]


class _Document(Struct, frozen=True):
    """Members of the file with their types and minimum values."""

    tracekit_baseline: Literal[1]
    name: str
    created_at: str
    label: str
    per: Per
    unit_count: _Units
    device_count: _Amount
    run_count: _Amount
    sample_names: list[str]
    sample_units: list[_Units]
    outside_ns: _Amount
    total_ns: _Amount
    figures: dict[str, _Figure]
    # Negative if a step is faster under the profiler.
    health: dict[str, float]
    facts: list[tuple[str, str, str, Weight]]
    modules: list[tuple[str, str | None, str | None]]
    cells: list[tuple[str, str, str, str, str | None, _Amount, _Amount, list[_Amount]]]
    # Missing in older baselines.
    tokens_per_s_of_repeats: list[_Figure] = field(default_factory=list)
    plain_step_ns: list[_Figure] = field(default_factory=list)
    latencies_ns: list[tuple[str, int, list[int], list[int] | None]] = field(default_factory=list)


def _read_content(result: _Document) -> Baseline:
    """Return the baseline in a file after checking that its times add up.

    Raises:
        ValueError: a member is not a number, or contradicts other members.
    """
    numbers = (*result.figures.values(), *result.health.values(), *result.plain_step_ns)
    if not all(map(math.isfinite, (*numbers, *result.tokens_per_s_of_repeats))):
        raise ValueError("a value that is not a number")
    cells = []
    for part, class_name, phase, module, op, count, kernel_ns, samples in result.cells:
        if part not in PARTS or len(samples) != len(result.sample_units):
            raise ValueError("a cell with an unknown kind of time or a wrong number of samples")
        cell = Cell(part, class_name, phase, module, op, None, None, count, kernel_ns, sum(samples))
        cell.samples = {number: ns for number, ns in enumerate(samples) if ns}
        cells.append(cell)
    if len(result.sample_names) != len(result.sample_units):
        raise ValueError("samples without names")
    if sum(cell.wall_ns for cell in cells) != result.total_ns:
        raise ValueError("parts that do not add up to their total")
    modules = {one[0]: ModuleNode(*one) for one in result.modules}
    _check_parents(modules)
    side = Side(cells=cells, modules=modules, **{name: getattr(result, name) for name in _OF_SIDE})
    return Baseline(
        result.name,
        side,
        result.health,
        result.figures,
        None,
        result.tokens_per_s_of_repeats,
        result.plain_step_ns,
        _latencies(result.latencies_ns),
        {(subject, name): (text, weight) for subject, name, text, weight in result.facts},
        result.created_at,
    )


def _check_parents(modules: Mapping[str, ModuleNode]) -> None:
    """Raise a ValueError if a module contains itself or is nested too deeply."""
    inside = {path: [node.parent] for path, node in modules.items() if node.parent in modules}
    depths: dict[str | None, int] = {None: 0}
    try:
        for path in TopologicalSorter[str | None](inside).static_order():
            depths[path] = 1 + max(depths[parent] for parent in inside.get(path or "", (None,)))
    except CycleError:
        raise ValueError("a module that contains itself") from None
    if max(depths.values(), default=0) > _MAX_MODULE_DEPTH:
        raise ValueError(f"modules nested more than {_MAX_MODULE_DEPTH} deep")


def _latencies(rows: Sequence[tuple[str, int, list[int], list[int] | None]]) -> dict[str, Ordered]:
    result: dict[str, Ordered] = {}
    for metric, count, values, places in rows:
        if sorted(values) != values or sorted(places or []) != (places or []):
            raise ValueError("latencies that are not sorted")
        if not values or len(values) != (count if places is None else len(places)):
            raise ValueError("latencies without positions")
        if places is not None and not (places[0] >= 0 and places[-1] < count):
            raise ValueError("latencies outside their series")
        series = Ordered(count, values, places)
        # Baselines of versions with other percentile positions lack these latencies.
        if is_enough(series, QUANTILES):
            result[metric] = series
    return result


def baseline_list(baselines: Sequence[Baseline]) -> Result:
    columns = columns_of_text(
        "name VARCHAR, run VARCHAR, created_at VARCHAR, per VARCHAR, sample_count BIGINT, "
        "median_ns DOUBLE"
    )
    rows = [
        (
            *(one.label, one.side.label, one.created_at, one.side.per),
            len(one.side.sample_units),
            median(one.side.series(one.side.cells)),
        )
        for one in baselines
    ]
    return Result("baselines", columns, rows)


def baseline_rows(baseline: Baseline) -> Result:
    """Return the time of a baseline by location, largest first, ns per step (or window)."""
    columns = columns_of_text(
        "part VARCHAR, class VARCHAR, phase VARCHAR, module_path VARCHAR, op VARCHAR, "
        "kernel_count DOUBLE, kernel_ns DOUBLE, wall_ns DOUBLE"
    )
    side = baseline.side
    rows = [
        (
            *(cell.part, cell.class_name, cell.phase, cell.module, cell.op),
            cell.kernel_count / side.unit_count,
            cell.kernel_ns / side.unit_count,
            cell.wall_ns / side.unit_count,
        )
        for cell in sorted(side.cells, key=lambda one: -one.wall_ns)
    ]
    return Result("baseline", columns, rows)
