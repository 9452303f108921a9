"""Baselines: what a run was like, small enough to lie beside the code.

A baseline is one JSON file: the time of every step by part, class, phase, module and op, the facts
and the health of the run, and a few figures of it as a whole; of serving the latency of each
request, in order. No event, no name of a kernel, no shape: tens of kB, one line for each place, so
that a change of it can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.checking.baseline_document import check_document
from tracekit.comparison.cells import PARTS, Cell, ModuleNode, Side
from tracekit.comparison.ordered import Ordered
from tracekit.comparison.quantiles import is_enough
from tracekit.comparison.serving import QUANTILES
from tracekit.comparison.setup import Facts, Health
from tracekit.errors import StoreError, UsageError
from tracekit.storage import Location
from tracekit.units import MB

VERSION = 1
MAX_FILE_BYTES = 64 * MB
"""A longer file is no baseline."""
SUFFIX = ".baseline.json"
DEFAULT_FOLDER = Path(".tracekit") / "baselines"
"""Where baselines lie unless told otherwise: below the current folder."""

Folder = str | Path | Location
"""A folder that baselines lie in: a path, or a URL of an object store or a web server."""

_SMALL_PPM = 100
"""Ops with less than these millionths of the whole are not told apart."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is kept of a run: its side of a comparison, and what it says of itself.

    `repeats` holds the tokens per second of each repeat of its measured steps, `latencies` those of
    its requests by metric, ns: all, or of many those that percentiles are compared by.
    """

    name: str
    side: Side
    facts: Facts
    health: Health
    figures: Mapping[str, float]
    created_at: str
    repeats: Sequence[float] = ()
    latencies: Mapping[str, Ordered] = field(default_factory=dict)


def save(baseline: Baseline, folder: Folder, *, replaces: bool = True) -> tuple[Location, int]:
    """Write a baseline, whole or not at all; return where it lies, and its size in bytes.

    Args:
        baseline: what to keep.
        folder: a local one, or one behind a URL.
        replaces: whether one of the same name is replaced.

    Raises:
        UsageError: the name cannot be that of a file, or there is such a baseline.
        StoreError: it cannot be written.
    """
    place = path_of(baseline.name, folder)
    side = baseline.side
    document = {
        "tracekit_baseline": VERSION,
        "name": baseline.name,
        "created_at": baseline.created_at,
        "label": side.label,
        "per": side.per,
        "unit_count": side.unit_count,
        "device_count": side.device_count,
        "run_count": side.run_count,
        "sample_names": list(side.sample_names),
        "sample_units": list(side.sample_units),
        "outside_ns": side.outside_ns,
        "total_ns": side.total_ns,
        "figures": dict(baseline.figures),
        "tokens_per_s_of_repeats": list(baseline.repeats),
        "health": dict(baseline.health),
    }
    lists: dict[str, Sequence[object]] = {
        "facts": [[*key, *value] for key, value in sorted(baseline.facts.items())],
        "modules": [[one.path, one.parent, one.class_name] for one in side.modules.values()],
        "cells": [_row(cell, len(side.sample_units)) for cell in _reduced(side)],
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
            f"{place}: there is a baseline {baseline.name!r}", hint="--force replaces it"
        ) from error
    except OSError as error:
        raise StoreError(f"{place}: cannot be written: {error.strerror or error}") from error
    return place, len(data)


def load(name: str, folder: Folder) -> Baseline:
    """Read a baseline by its name, or by the path or URL of its file.

    Raises:
        UsageError: there is none, or it is none.
        StoreError: the folder cannot be listed, or the file not be read.
    """
    place = Location.of(name) if is_file_of_one(name) else path_of(name, folder)
    try:
        document = json.loads(place.read_bytes(MAX_FILE_BYTES))
    except FileNotFoundError as error:
        known = ", ".join(names(place.parent)) or "none"
        raise UsageError(
            f"there is no baseline {name!r}",
            hint=f"in {place.parent}: {known}; tracekit baseline save",
        ) from error
    except OSError as error:
        raise StoreError(f"{place}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place}: not a baseline: {error}") from error
    try:
        return _loaded(document)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UsageError(
            f"{place}: not a baseline of this version of tracekit",
            hint="make it anew: tracekit baseline save",
        ) from error


def is_file_of_one(text: str) -> bool:
    """Whether a text is the path or the URL of a baseline's file; a signature may follow it."""
    return text.partition("?")[0].endswith(SUFFIX)


def names(folder: Folder) -> list[str]:
    """Return the names of the baselines in a folder.

    Raises:
        StoreError: the folder cannot be listed.
    """
    place = Location.of(folder)
    try:
        entries = place.entries()
    except OSError as error:
        raise StoreError(f"{place}: cannot be listed: {error.strerror or error}") from error
    return sorted(one.name.removesuffix(SUFFIX) for one in entries if one.name.endswith(SUFFIX))


def path_of(name: str, folder: Folder) -> Location:
    """Return the file of a baseline.

    Raises:
        UsageError: the name cannot be that of a file.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a baseline", hint="letters, digits, . _ and -"
        )
    return Location.of(folder) / (name + SUFFIX)


def _reduced(side: Side) -> list[Cell]:
    """Return the cells without shapes and names of kernels, in an order that does not change.

    Ops that take next to nothing are one for their class, phase and module: no sum changes by it.
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


def _loaded(document: Mapping[str, Any]) -> Baseline:
    if document["tracekit_baseline"] != VERSION:
        raise ValueError("another version")
    check_document(document)
    cells = []
    for part, class_name, phase, module, op, count, kernel_ns, samples in document["cells"]:
        cell = Cell(part, class_name, phase, module, op, None, None, count, kernel_ns)
        cell.samples = {number: ns for number, ns in enumerate(samples) if ns}
        cell.wall_ns = sum(samples)
        cells.append(cell)
    side = Side(
        label=document["label"],
        per=document["per"],
        cells=cells,
        modules={one[0]: ModuleNode(*one) for one in document["modules"]},
        unit_count=document["unit_count"],
        device_count=document["device_count"],
        run_count=document["run_count"],
        sample_names=document["sample_names"],
        sample_units=document["sample_units"],
        outside_ns=document["outside_ns"],
        total_ns=document["total_ns"],
    )
    facts: Facts = {
        (subject, name): (text, weight) for subject, name, text, weight in document["facts"]
    }
    return Baseline(
        document["name"],
        side,
        facts,
        document["health"],
        document["figures"],
        document["created_at"],
        # Baselines of before have none.
        document.get("tokens_per_s_of_repeats", []),
        _latencies(document.get("latencies_ns", [])),
    )


def _latencies(rows: Sequence[tuple[str, int, list[int], list[int] | None]]) -> dict[str, Ordered]:
    found: dict[str, Ordered] = {}
    for metric, count, values, places in rows:
        for numbers in (values, places or []):
            if not all(isinstance(one, int) for one in numbers) or sorted(numbers) != numbers:
                raise ValueError("latencies that are not in order")
        if not values or len(values) != (count if places is None else len(places)):
            raise ValueError("latencies without their places")
        if places is not None and not (places[0] >= 0 and places[-1] < count):
            raise ValueError("latencies outside of their series")
        series = Ordered(count, values, places)
        # A version that looks at other places finds no percentile in it, and says so.
        if is_enough(series, QUANTILES):
            found[metric] = series
    return found
