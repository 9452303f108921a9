"""What must hold in the file of a baseline, whoever wrote it, before figures are made of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from tracekit.amounts import check_amounts
from tracekit.comparison.cells import PARTS, Per
from tracekit.comparison.setup import Weight
from tracekit.typed_json import build


@dataclass(frozen=True, slots=True)
class _Document:
    """The members of the file, apart from latencies, which are checked as they are read."""

    name: str
    created_at: str
    label: str
    per: Per
    unit_count: int
    device_count: int
    run_count: int
    sample_names: list[str]
    sample_units: list[int]
    outside_ns: int
    total_ns: int
    figures: dict[str, float]
    health: dict[str, float]
    facts: list[list[str]]
    modules: list[list[str | None]]
    cells: list[list[Any]]
    tokens_per_s_of_repeats: list[float] = field(default_factory=list)


def check_document(document: Mapping[str, Any]) -> None:
    """Check the types, lengths and amounts of a baseline, and that its times add up.

    Raises:
        TypeError: a member is of a wrong type.
        ValueError: one is missing, below zero or no number, or does not fit the others.
    """
    found = build(_Document, document, "baseline")
    check_amounts(found, "baseline")
    check_amounts([*found.figures.values()], "baseline: figures")
    # A step may be faster under the profiler than without: then its slowdown is below zero.
    if not all(math.isfinite(value) for value in found.health.values()):
        raise ValueError("baseline: health that is no number")
    if not found.unit_count or not all(found.sample_units):
        raise ValueError("baseline: of no unit")
    if len(found.sample_names) != len(found.sample_units):
        raise ValueError("baseline: samples without names")
    if any(len(row) != 4 or row[3] not in get_args(Weight) for row in found.facts):
        raise ValueError("baseline: facts of another form")
    if any(len(row) != 3 or row[0] is None for row in found.modules):
        raise ValueError("baseline: modules of another form")
    total_ns = sum(_wall_ns(row, len(found.sample_units)) for row in found.cells)
    if total_ns != found.total_ns:
        raise ValueError(f"baseline: its parts add up to {total_ns} ns, not {found.total_ns} ns")


def _wall_ns(row: list[Any], sample_count: int) -> int:
    """Return the time of a cell in all samples, ns."""
    part, class_name, phase, module, op, count, kernel_ns, samples = row
    if part not in PARTS:
        raise ValueError(f"baseline: no part of the time: {part!r:.40}")
    if not all(isinstance(text, str) for text in (class_name, phase, module, op or "")):
        raise TypeError("baseline: names of a cell that are no texts")
    if len(samples) != sample_count:
        raise ValueError("baseline: a cell of another number of samples")
    for number in (count, kernel_ns, *samples):
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise TypeError(f"baseline: an amount of a cell is {number!r:.40}")
    return sum(samples)
