"""Effects that explain the time difference of matched work: count, duration, shapes, overlap."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from tracekit.comparison.matching import Pair

EFFECTS = (
    "by_new_ns",
    "by_gone_ns",
    "by_recompute_ns",
    "by_count_ns",
    "by_clock_ns",
    "by_cost_ns",
    "by_shape_ns",
    "by_kernel_ns",
    "by_overlap_ns",
    "by_idle_ns",
)
"""Effects in display order. The effects of a pair add up to its time difference.

- new, gone: work on one side only.
- recompute: forward work repeated for the backward pass (activation checkpointing) on one side
only, with the idle time before it.
- count: more or fewer calls, at the base's time per call.
- clock: all compute takes longer by a common factor.
- cost: the same kernels take longer beyond that factor; shapes are equal or unknown.
- shape: the same op has other shapes.
- kernel: other kernels do the same work.
- overlap: less of the time overlaps with other work.
- idle: the device is idle longer or shorter; the split has the causes.
"""

_CLOCK_SHARE = Fraction(4, 5)
_CLOCK_SPREAD = Fraction(1, 100)
_MIN_CLOCK = Fraction(1, 200)
_GRID = re.compile(r"\[\d+,\d+,\d+\]")
_NUMBER = re.compile(r"\d{1,18}")


def clock_factor(pairs: Sequence[Pair]) -> Fraction | None:
    """Return the common factor by which all compute takes longer, or None.

    The factor is the time-weighted median ratio of calls with the same kernel and known shape. It
    must hold within 1 % for four fifths of the base's compute time, also without the longest work,
    and differ from 1 by at least half a percent.
    """
    total = 0
    ratios: list[tuple[Fraction, int]] = []
    for pair in pairs:
        if pair.part != "compute":
            continue
        base, new = _sum(pair, 0), _sum(pair, 1)
        total += base[1]
        has_shapes = all(cell.shape is not None for cell in pair.base)
        if pair.match == "same" and has_shapes and base[0] and base[1] and new[0] and new[1]:
            ratios.append((Fraction(new[1] * base[0], base[1] * new[0]), base[1]))
    ratios.sort()
    reached, half = 0, sum(weight for _, weight in ratios) / 2
    factor = None
    for ratio, weight in ratios:
        reached += weight
        if reached >= half:
            factor = ratio
            break
    if factor is None or abs(factor - 1) < _MIN_CLOCK:
        return None
    near = [weight for ratio, weight in ratios if abs(ratio - factor) <= _CLOCK_SPREAD]
    others = sum(near) - max(near)
    return factor if others and others >= _CLOCK_SHARE * (total - max(near)) else None


def effects_of(pair: Pair, units: tuple[int, int], clock: Fraction | None) -> dict[str, Fraction]:
    """Return the exact nonzero effects of a pair, ns per unit (divided by the sides' `units`)."""
    base, new = _sum(pair, 0), _sum(pair, 1)
    count, kernel, wall = (
        (Fraction(base[at], units[0]), Fraction(new[at], units[1])) for at in range(3)
    )
    if pair.match in ("new", "gone") and pair.phase == "recompute":
        return {"by_recompute_ns": wall[1] - wall[0]}
    if pair.part == "idle":
        return {"by_idle_ns": wall[1] - wall[0]}
    if pair.match in ("new", "gone"):
        return {f"by_{pair.match}_ns": wall[1] - wall[0]}
    result = {"by_overlap_ns": (wall[1] - kernel[1]) - (wall[0] - kernel[0])}
    longer = kernel[1] - kernel[0]
    is_same = _is_same(pair)
    is_one_each = len(pair.base_names) == len(pair.new_names) == 1
    if count[0] and count[1] and kernel[0] and (pair.match == "same" or is_same or is_one_each):
        mean = kernel[0] / count[0]
        result["by_count_ns"] = (count[1] - count[0]) * mean
        longer -= result["by_count_ns"]
        if clock is not None and pair.match == "same" and pair.part == "compute":
            result["by_clock_ns"] = (clock - 1) * mean * count[1]
            longer -= result["by_clock_ns"]
    has_other_shapes = (is_same or pair.match == "op") and _has_other_shapes(pair, is_same=is_same)
    if pair.match == "same" or (is_same and not has_other_shapes):
        result["by_cost_ns"] = longer
    elif has_other_shapes:
        result["by_shape_ns"] = longer
    else:
        result["by_kernel_ns"] = longer
    return result


def _has_other_shapes(pair: Pair, *, is_same: bool) -> bool:
    """Return whether the op's shapes, or (if unknown) the grids of the same kernels, differ."""
    shapes = [{cell.shape for cell in cells} - {None} for cells in (pair.base, pair.new)]
    grids = [{shape for shape in side if shape and _GRID.fullmatch(shape)} for side in shapes]
    own_shapes = [side - grid for side, grid in zip(shapes, grids, strict=True)]
    if any(own_shapes):
        return all(own_shapes) and own_shapes[0] != own_shapes[1]
    return is_same and all(grids) and grids[0] != grids[1]


def shape_change(pairs: Sequence[Pair]) -> str | None:
    """Return the changed dimension that affects the most time, such as 2048 → 8192."""
    weights: Counter[tuple[int, int]] = Counter()
    for pair in pairs:
        shapes = [{cell.shape or "" for cell in cells} for cells in (pair.base, pair.new)]
        if pair.part != "compute" or any(len(side) != 1 for side in shapes):
            continue
        texts = [side.pop() for side in shapes]
        old, new = ([int(one) for one in _NUMBER.findall(text)] for text in texts)
        if len(old) == len(new) and not _GRID.fullmatch(texts[0]):
            time_ns = _sum(pair, 0)[1] + _sum(pair, 1)[1]
            for change in {(a, b) for a, b in zip(old, new, strict=True) if a != b}:
                weights[change] += time_ns
    if not weights:
        return None
    (old_size, new_size), _ = weights.most_common(1)[0]
    times = f" ({new_size / old_size:.3g} ×)" if old_size else ""
    return f"{old_size} → {new_size}{times}"


def _is_same(pair: Pair) -> bool:
    # Baselines contain no kernel names.
    if not pair.base_names or not pair.new_names:
        return True
    return {cell.name for cell in pair.base} == {cell.name for cell in pair.new}


def _sum(pair: Pair, side: int) -> tuple[int, int, int]:
    cells = (pair.base, pair.new)[side]
    return (
        sum(cell.kernel_count for cell in cells),
        sum(cell.kernel_ns for cell in cells),
        sum(cell.wall_ns for cell in cells),
    )
