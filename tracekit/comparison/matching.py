"""Matches the work of two sides by meaning rather than by kernel name.

Work is matched within one category and phase, and within one module if possible. The keys are, in
order: op, shape, and name; op and shape; op; name; class. Remaining work in the same place is
matched last. Op precedes name because a library may use different kernels for an op, or one kernel
for several ops. Work without a counterpart in its module is matched one level up, and so on to the
root. Work without any counterpart is new or gone.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tracekit.comparison.cells import Cell, Side
from tracekit.comparison.places import Alignment

Match = Literal["same", "op and shape", "op", "name", "class", "place", "new", "gone"]

"""How a pair was matched, most reliable first."""

_BY_OP: tuple[Match, ...] = ("op and shape", "op")

_ALIKE_RATIO: Mapping[Match, int] = {"class": 8, "place": 32}
"""Maximum ratio of times for matching work with different ops and names."""


class Pair(Struct, frozen=True):
    """Corresponding work of both sides, or work of one side if it is new or gone."""

    part: str
    phase: str
    module: str
    base: Sequence[Cell]
    new: Sequence[Cell]
    match: Match

    @property
    def class_name(self) -> str:
        base, new = (
            "+".join(sorted({cell.class_name for cell in cells})) for cells in (self.base, self.new)
        )
        return base if base == new or not new else new if not base else f"{base} → {new}"

    @property
    def base_names(self) -> list[str]:
        return _names(self.base)

    @property
    def new_names(self) -> list[str]:
        return _names(self.new)


def _names(cells: Iterable[Cell]) -> list[str]:
    result: dict[str, int] = defaultdict(int)
    for cell in cells:
        if cell.name is not None:
            result[cell.name] += cell.kernel_ns
    return sorted(result, key=lambda name: (-result[name], name))


def match_sides(base: Side, new: Side, alignment: Alignment) -> list[Pair]:
    """Match all work of two sides; the pairs contain every cell exactly once."""
    parents = {node.path: node.parent for node in base.modules.values()}
    places = _places_of(base, new, alignment)
    for node in new.modules.values():
        if node.path not in alignment.base_of:
            parents[places[node.path]] = places.get(node.parent or "", node.parent)
    around = _around(parents)
    groups: dict[tuple[str, str], tuple[_Pool, _Pool]] = {}
    for is_new, side in enumerate((base, new)):
        for cell in side.cells:
            place = places.get(cell.module, cell.module) if is_new else cell.module
            pools = groups.setdefault((cell.part, cell.phase), (_Pool(list), _Pool(list)))
            pools[is_new][place].append(cell)
    pairs: list[Pair] = []
    for (part, phase), pools in groups.items():
        pairs.extend(_match_group(part, phase, pools, around, (base.unit_count, new.unit_count)))
    return pairs


_Pool = defaultdict[str, list[Cell]]
"""Unmatched cells by place."""

_TOP = ""
"""The root, around all modules."""

_DEEPEST = 32
"""Depth at which unmatched work of all deeper places is matched next."""


def _places_of(base: Side, new: Side, alignment: Alignment) -> dict[str, str]:
    places = dict(alignment.base_of)
    aligned, used = {*places.values()}, base.modules.keys() | new.modules.keys()
    for path in new.modules:
        if path not in places:
            place = path
            # Another module of the base may have the same path.
            while path in aligned and place in used:
                place += " (new)"
            places[path] = place
            used.add(place)
    return places


def _around(parents: Mapping[str, str | None]) -> dict[str, tuple[int, str]]:
    """Return the depth of each place, and the place where its unmatched work is matched next."""
    result: dict[str, tuple[int, str]] = {_TOP: (-1, _TOP)}
    for start in parents:
        inner: list[str] = []
        place = start
        while place not in result:
            # The root is the default, which also handles cycles in the file.
            result[place] = 0, _TOP
            inner.append(place)
            place = parents.get(place) or _TOP
        for one in reversed(inner):
            depth = result[place][0] + 1
            result[one] = depth, (result[place][1] if depth > _DEEPEST + 1 else place)
            place = one
    return result


_Key = Callable[[Cell], object]

_LEVELS: tuple[tuple[Match, _Key], ...] = (
    ("same", lambda cell: (cell.op, cell.shape, cell.class_name, cell.name)),
    ("op and shape", lambda cell: cell.op and cell.shape and (cell.op, cell.shape)),
    ("op", lambda cell: cell.op),
    ("name", lambda cell: cell.name and (cell.name, cell.class_name)),
    ("class", lambda cell: cell.class_name),
)
"""Keys for matching within a place, by precedence. Work with an empty key is skipped."""


def _match_group(
    part: str,
    phase: str,
    pools: tuple[_Pool, _Pool],
    around: Mapping[str, tuple[int, str]],
    units: tuple[int, int],
) -> list[Pair]:
    pairs: list[Pair] = []
    by_depth: dict[int, set[str]] = defaultdict(set)
    for place in (place for pool in pools for place in pool):
        by_depth[around.get(place, (0, _TOP))[0]].add(place)
    for depth, place in _innermost_first(by_depth):
        unmatched: tuple[list[Cell], list[Cell]] = pools[0].pop(place, []), pools[1].pop(place, [])
        # Idle time with different causes does not match.
        first = len(pairs)
        levels = _LEVELS if part != "idle" else (_LEVELS[0], _LEVELS[2], _LEVELS[4])
        for match, key in levels:
            if unmatched[0] and unmatched[1]:
                result, unmatched = _by_key(unmatched, key, match, is_idle=part == "idle")
                pairs += (
                    Pair(part, phase, place or _common(one + other), one, other, match)
                    for one, other in result
                )
        if (
            part != "idle"
            and place != _TOP
            and unmatched[0]
            and unmatched[1]
            and _are_alike(*unmatched, "place")
        ):
            pairs.append(Pair(part, phase, place, unmatched[0], unmatched[1], "place"))
            unmatched = [], []
        if part != "idle" and bool(unmatched[0]) != bool(unmatched[1]):
            pairs[first:], unmatched = _fused(pairs[first:], unmatched, units)
        if not unmatched[0] and not unmatched[1]:
            continue
        if place == _TOP:
            pairs += (Pair(part, phase, cell.module, [cell], [], "gone") for cell in unmatched[0])
            pairs += (Pair(part, phase, cell.module, [], [cell], "new") for cell in unmatched[1])
            continue
        _, next_place = around.get(place, (0, _TOP))
        next_depth = around[next_place][0]
        if next_depth >= depth:
            next_depth, next_place = -1, _TOP
        by_depth[next_depth].add(next_place)
        pools[0][next_place] += unmatched[0]
        pools[1][next_place] += unmatched[1]
    return pairs


def _innermost_first(by_depth: Mapping[int, set[str]]) -> Iterator[tuple[int, str]]:
    """Yield places by depth, innermost first, including places added during the iteration."""
    for depth in range(max(by_depth), -2, -1):
        for place in sorted(by_depth.get(depth, ()), reverse=True):
            yield depth, place


def _fused(
    pairs: Sequence[Pair], unmatched: tuple[list[Cell], list[Cell]], units: tuple[int, int]
) -> tuple[list[Pair], tuple[list[Cell], list[Cell]]]:
    """Find work that was fused into a kernel with another name.

    Unmatched work of one side is added to a pair in the same place if the pair's kernels have other
    names on the other side, and if the pair's time difference at least halves. Work from other
    modules is not added to a pair of a single op, because such a pair already has all work of the
    op.
    """
    outcome, is_new = list(pairs), bool(unmatched[1])
    rest: tuple[list[Cell], list[Cell]] = [], []
    # By source module (None for any): the time that a side lacks, and the pair.
    lacking: dict[str | None, list[tuple[float, int]]] = defaultdict(list)
    offered: dict[int, tuple[float, set[str] | set[None]]] = {}

    def offer(number: int) -> None:
        pair = outcome[number]
        lacks = _time(pair.base) / units[0] - _time(pair.new) / units[1]
        lacks = lacks if is_new else -lacks
        if lacks <= 0 or pair.match == "same" or {*pair.base_names} & {*pair.new_names}:
            return
        modules: set[str] | set[None] = {None}
        if pair.match in _BY_OP:
            modules = {cell.module for cell in (pair.base, pair.new)[is_new]}
        for module in modules:
            insort(lacking[module], (lacks, number))
        offered[number] = lacks, modules

    for number in range(len(outcome)):
        offer(number)
    for cell in sorted(unmatched[is_new], key=lambda one: -one.kernel_ns):
        gained = cell.kernel_ns / units[is_new]
        near = [one for key in (None, cell.module) for one in _nearest(lacking[key], gained)]
        fitting = [one for one in near if 2 * abs(one[0] - gained) <= one[0]]
        if not fitting:
            rest[is_new].append(cell)
            continue
        _, number = min(fitting, key=lambda one: (abs(one[0] - gained), one[1]))
        lacks, modules = offered[number]
        for module in modules:
            del lacking[module][bisect_left(lacking[module], (lacks, number))]
        pair = outcome[number]
        base, new = (pair.base, [*pair.new, cell]) if is_new else ([*pair.base, cell], pair.new)
        outcome[number] = Pair(pair.part, pair.phase, pair.module, base, new, "place")
        offer(number)
    return outcome, rest


def _nearest(offered: Sequence[tuple[float, int]], ns: float) -> Iterable[tuple[float, int]]:
    """Yield the items with the nearest times below and above a given time."""
    at = bisect_left(offered, (ns, -1))
    if at:
        yield offered[bisect_left(offered, (offered[at - 1][0], -1))]
    yield from offered[at : at + 1]


def _time(cells: Iterable[Cell]) -> int:
    return sum(cell.kernel_ns for cell in cells)


def _common(cells: Iterable[Cell]) -> str:
    places = sorted({cell.module for cell in cells})
    return places[0] if len(places) == 1 else "(several modules)"


def _by_key(
    cells: tuple[Sequence[Cell], Sequence[Cell]], key: _Key, match: Match, *, is_idle: bool
) -> tuple[list[tuple[list[Cell], list[Cell]]], tuple[list[Cell], list[Cell]]]:
    grouped: dict[object, tuple[list[Cell], list[Cell]]] = {}
    unmatched: tuple[list[Cell], list[Cell]] = [], []
    for is_new in (0, 1):
        for cell in cells[is_new]:
            result = key(cell)
            if not result:
                unmatched[is_new].append(cell)
                continue
            if is_idle:
                result = result, cell.class_name
            grouped.setdefault(result, ([], []))[is_new].append(cell)
    both = []
    for one, other in grouped.values():
        if one and other and (match != "class" or is_idle or _are_alike(one, other, match)):
            both.append((one, other))
        else:
            unmatched[0].extend(one)
            unmatched[1].extend(other)
    return both, unmatched


def _are_alike(base: Sequence[Cell], new: Sequence[Cell], match: Match) -> bool:
    sums = [_time(cells) for cells in (base, new)]
    return max(sums) <= _ALIKE_RATIO[match] * max(min(sums), 1)
