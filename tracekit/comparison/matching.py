"""Which work of one side is which of the other: by meaning, and not by the names of kernels.

Work is matched within one part of the time and one phase, in one module if it can be; there by op,
shape and name, by op and shape, by op, by name, by class, and at last what is left of both sides of
the place. By op before by name: a library may run an op by another kernel of its own, and some of
the calls by the one that others had. What finds no counterpart in its module is looked for around
it, up to the top: the lowest common place of the two trees. What finds none at all is new or gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tracekit.comparison.cells import Cell, ModuleNode, Side
from tracekit.comparison.places import Alignment

Match = Literal["same", "op and shape", "op", "name", "class", "place", "new", "gone"]

MATCHES: tuple[Match, ...] = (
    *("same", "op and shape", "op", "name", "class", "place", "new", "gone"),
)
"""How a pair was matched, the surest first."""

_BY_OP: tuple[Match, ...] = ("op and shape", "op")

_ALIKE_RATIO: Mapping[Match, int] = {"class": 8, "place": 32}
"""So many times the time of the other side may have what is matched without the same op or name."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Work of both sides that is the same work; of one side alone where it is new or gone."""

    part: str
    phase: str
    module: str
    base: Sequence[Cell]
    new: Sequence[Cell]
    match: Match

    @property
    def class_name(self) -> str:
        """The class of the work; where it is another on the other side, both."""
        base, new = (
            "+".join(sorted({cell.class_name for cell in cells})) for cells in (self.base, self.new)
        )
        return base if base == new or not new else new if not base else f"{base} → {new}"

    @property
    def base_names(self) -> list[str]:
        """The kernels of the base, those with most time first."""
        return _names(self.base)

    @property
    def new_names(self) -> list[str]:
        """The kernels of the new side, those with most time first."""
        return _names(self.new)


def _names(cells: Iterable[Cell]) -> list[str]:
    found: dict[str, int] = defaultdict(int)
    for cell in cells:
        if cell.name is not None:
            found[cell.name] += cell.kernel_ns
    return sorted(found, key=lambda name: (-found[name], name))


def match_sides(base: Side, new: Side, alignment: Alignment) -> list[Pair]:
    """Match all work of two sides.

    Args:
        base: the one side.
        new: the other.
        alignment: which modules correspond.

    Returns:
        Pairs that hold every cell of both sides exactly once.
    """
    parents = {node.path: node.parent for node in base.modules.values()}
    for node in new.modules.values():
        if node.path not in alignment.base_of:
            parents[_new_place(node, alignment)] = _place_of(node.parent, new, alignment)
    groups: dict[tuple[str, str], tuple[_Pool, _Pool]] = {}
    for is_new, side in enumerate((base, new)):
        for cell in side.cells:
            place = _place_of(cell.module, new, alignment) if is_new else cell.module
            pools = groups.setdefault((cell.part, cell.phase), (_Pool(list), _Pool(list)))
            pools[is_new][place or cell.module].append(cell)
    pairs: list[Pair] = []
    for (part, phase), pools in groups.items():
        pairs.extend(_match_group(part, phase, pools, parents, (base.unit_count, new.unit_count)))
    return pairs


class _Pool(defaultdict[str, list[Cell]]):
    """Cells that have no counterpart yet, by place."""


def _place_of(path: str | None, new: Side, alignment: Alignment) -> str | None:
    """Return what a module of the new side is called in the tree of both."""
    if path is None or path not in new.modules:
        return path
    return alignment.base_of.get(path) or _new_place(new.modules[path], alignment)


def _new_place(node: ModuleNode, alignment: Alignment) -> str:
    # A module of the base may have the same path and be another one.
    return node.path if node.path not in alignment.base_of.values() else node.path + " (new)"


_Key = Callable[[Cell], object]

_LEVELS: tuple[tuple[Match, _Key], ...] = (
    ("same", lambda cell: (cell.op, cell.shape, cell.class_name, cell.name)),
    ("op and shape", lambda cell: cell.op and cell.shape and (cell.op, cell.shape)),
    ("op", lambda cell: cell.op),
    ("name", lambda cell: cell.name and (cell.name, cell.class_name)),
    ("class", lambda cell: cell.class_name),
)
"""By what work is matched within a place. What the key is empty for is left to the next level."""


def _match_group(
    part: str,
    phase: str,
    pools: tuple[_Pool, _Pool],
    parents: Mapping[str, str | None],
    units: tuple[int, int],
) -> list[Pair]:
    """Match the work of one part and phase: place by place, the innermost first."""
    pairs: list[Pair] = []
    depths = {place: _depth(place, parents) for pool in pools for place in pool}
    top = ""
    while depths:
        place = max(depths, key=lambda one: (depths[one], one))
        depth = depths.pop(place)
        left: tuple[list[Cell], list[Cell]] = pools[0].pop(place, []), pools[1].pop(place, [])
        # Idle time is what its cause says, and is not another cause elsewhere.
        first = len(pairs)
        levels = _LEVELS if part != "idle" else (_LEVELS[0], _LEVELS[2], _LEVELS[4])
        for match, key in levels:
            if left[0] and left[1]:
                found, left = _by_key(left, key, match, is_idle=part == "idle")
                pairs += (
                    Pair(part, phase, place or _common(one + other), one, other, match)
                    for one, other in found
                )
        if part != "idle" and place != top and left[0] and left[1] and _are_alike(*left, "place"):
            pairs.append(Pair(part, phase, place, left[0], left[1], "place"))
            left = [], []
        if part != "idle" and bool(left[0]) != bool(left[1]):
            pairs[first:], left = _fused(pairs[first:], left, units)
        if not left[0] and not left[1]:
            continue
        if place == top:
            for cells, match in ((left[0], "gone"), (left[1], "new")):
                pairs += (
                    Pair(part, phase, cell.module, *_one_side(cell, match), match) for cell in cells
                )
            continue
        around = parents.get(place) or top
        depths.setdefault(around, depth - 1 if around else -1)
        pools[0][around] += left[0]
        pools[1][around] += left[1]
    return pairs


def _fused(
    pairs: Sequence[Pair], left: tuple[list[Cell], list[Cell]], units: tuple[int, int]
) -> tuple[list[Pair], tuple[list[Cell], list[Cell]]]:
    """Find what became part of another kernel: that has another name, and does more.

    What one side has left of a place belongs to a pair there whose kernels have other names on the
    other side, if with it the times of both sides of the pair are at most half as far apart. A pair
    of one op takes nothing from other modules: it is that op's work on both sides.
    """
    found, is_new = list(pairs), bool(left[1])
    rest: tuple[list[Cell], list[Cell]] = [], []
    for cell in sorted(left[is_new], key=lambda one: -one.kernel_ns):
        best: tuple[float, int] | None = None
        for number, pair in enumerate(found):
            if pair.match == "same" or {*pair.base_names} & {*pair.new_names}:
                continue
            around = {other.module for other in (pair.base, pair.new)[is_new]}
            if pair.match in _BY_OP and cell.module not in around:
                continue
            apart = _time(pair.new) / units[1] - _time(pair.base) / units[0]
            gained = cell.kernel_ns / units[is_new]
            left_apart = abs(apart + gained if is_new else apart - gained)
            if 2 * left_apart <= abs(apart) and (best is None or left_apart < best[0]):
                best = left_apart, number
        if best is None:
            rest[is_new].append(cell)
            continue
        pair = found[best[1]]
        base, new = (pair.base, [*pair.new, cell]) if is_new else ([*pair.base, cell], pair.new)
        found[best[1]] = Pair(pair.part, pair.phase, pair.module, base, new, "place")
    return found, rest


def _time(cells: Iterable[Cell]) -> int:
    return sum(cell.kernel_ns for cell in cells)


def _one_side(cell: Cell, match: str) -> tuple[list[Cell], list[Cell]]:
    return ([cell], []) if match == "gone" else ([], [cell])


def _common(cells: Iterable[Cell]) -> str:
    """Return the place of cells that were matched above all modules."""
    places = sorted({cell.module for cell in cells})
    return places[0] if len(places) == 1 else "(several modules)"


def _depth(place: str, parents: Mapping[str, str | None]) -> int:
    depth, around = 0, parents.get(place)
    while around:
        depth, around = depth + 1, parents.get(around)
    return depth


def _by_key(
    cells: tuple[Sequence[Cell], Sequence[Cell]], key: _Key, match: Match, *, is_idle: bool
) -> tuple[list[tuple[list[Cell], list[Cell]]], tuple[list[Cell], list[Cell]]]:
    """Group cells of both sides by a key: what is on both sides, and what is left."""
    grouped: dict[object, tuple[list[Cell], list[Cell]]] = {}
    left: tuple[list[Cell], list[Cell]] = [], []
    for is_new in (0, 1):
        for cell in cells[is_new]:
            found = key(cell)
            if not found:
                left[is_new].append(cell)
                continue
            if is_idle:
                found = found, cell.class_name
            grouped.setdefault(found, ([], []))[is_new].append(cell)
    both = []
    for one, other in grouped.values():
        if one and other and (match != "class" or is_idle or _are_alike(one, other, match)):
            both.append((one, other))
        else:
            left[0].extend(one)
            left[1].extend(other)
    return both, left


def _are_alike(base: Sequence[Cell], new: Sequence[Cell], match: Match) -> bool:
    """Whether work without the same op or name may be the same: neither side is most of it."""
    sums = [_time(cells) for cells in (base, new)]
    return max(sums) <= _ALIKE_RATIO[match] * max(min(sums), 1)
