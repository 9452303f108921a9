"""The difference as a tree whose levels add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Literal

from msgspec import Struct, field

from tracekit.comparison.cells import PARTS
from tracekit.comparison.effects import EFFECTS, effects_of
from tracekit.comparison.matching import Pair

By = Literal["module", "class", "phase"]
"""First level of the compute split."""

_Level = tuple[str, Callable[[Pair], str]]

_PHASE: _Level = ("phase", lambda pair: pair.phase)
_MODULE: _Level = ("module", lambda pair: pair.module)
_CLASS: _Level = ("class", lambda pair: pair.class_name)

_COMPUTE: Mapping[By, tuple[_Level, ...]] = {
    "phase": (_PHASE, _MODULE, _CLASS),
    "module": (_MODULE, _PHASE, _CLASS),
    "class": (_CLASS, _PHASE, _MODULE),
}
# The first level is the collective for communication, the direction for copies, and the cause for
# idle time.
_OTHERS = (_CLASS, _PHASE, _MODULE)


class Node(Struct):
    """A part of the difference, as integer ns per unit. Children add up to their parent.

    `*_sum_ns` are the exact sums over all units, before division.
    """

    level: str
    name: str
    pairs: Sequence[Pair]
    children: list[Node] = field(default_factory=list)
    base_sum_ns: int = 0
    new_sum_ns: int = 0
    base_ns: int = 0
    new_ns: int = 0
    effects: dict[str, int] = field(default_factory=dict)

    @property
    def delta_ns(self) -> int:
        return self.new_ns - self.base_ns

    def walk(self) -> Iterable[Node]:
        yield self
        for child in self.children:
            yield from child.walk()


def make_tree(pairs: Sequence[Pair], units: tuple[int, int], clock: Fraction | None) -> Node:
    """Return the tree by phase and module, with times rounded to ns.

    Sums are divided by the units of their side. The total is rounded to the nearest ns and
    distributed to children by the largest remainder method. Every figure is less than 1 ns from its
    exact value.
    """
    leaves = [_leaf(pair) for pair in pairs]
    root = _make_node(
        "total", "total", leaves, (("part", lambda pair: pair.part), *_COMPUTE["phase"])
    )
    root.base_ns = rounded(Fraction(root.base_sum_ns, units[0]))
    root.new_ns = rounded(Fraction(root.new_sum_ns, units[1]))
    nodes = [*root.walk()]
    for node in nodes:
        if node.children:
            _share_out(node, units)
        else:
            _explain(node, units, clock)
    for node in reversed(nodes):
        if node.children:
            _sum_effects(node)
    return root


def rearranged(root: Node, by: By) -> Node:
    """Return a tree of the same leaves with another order of levels; leaf figures are unchanged."""
    leaves = [node for node in root.walk() if not node.children]
    top = Node("total", "total", root.pairs, [], root.base_sum_ns, root.new_sum_ns)
    for part in PARTS:
        inside = [leaf for leaf in leaves if leaf.pairs[0].part == part]
        if inside:
            levels = _COMPUTE[by] if part == "compute" else _OTHERS
            top.children.append(_make_node("part", part, inside, levels))
    _sum_up(top)
    return top


def _leaf(pair: Pair) -> Node:
    names = {cell.op or cell.name or "" for cell in pair.base or pair.new}
    name = ", ".join(sorted(names)[:3]) + (", …" if len(names) > 3 else "")
    base_ns, new_ns = (sum(cell.wall_ns for cell in side) for side in (pair.base, pair.new))
    return Node("work", name, [pair], base_sum_ns=base_ns, new_sum_ns=new_ns)


def _make_node(level: str, name: str, leaves: Sequence[Node], levels: Sequence[_Level]) -> Node:
    node = Node(level, name, [leaf.pairs[0] for leaf in leaves], list(leaves))
    if levels:
        (next_level, key), *rest = levels
        grouped: dict[str, list[Node]] = {}
        for leaf in leaves:
            grouped.setdefault(key(leaf.pairs[0]), []).append(leaf)
        node.children = [
            _make_node(next_level, one, inside, rest) for one, inside in grouped.items()
        ]
    node.base_sum_ns = sum(leaf.base_sum_ns for leaf in leaves)
    node.new_sum_ns = sum(leaf.new_sum_ns for leaf in leaves)
    return node


def _share_out(node: Node, units: tuple[int, int]) -> None:
    of_base = [Fraction(child.base_sum_ns, units[0]) for child in node.children]
    of_new = [Fraction(child.new_sum_ns, units[1]) for child in node.children]
    shares = zip(apportion(node.base_ns, of_base), apportion(node.new_ns, of_new), strict=True)
    for child, (base_ns, new_ns) in zip(node.children, shares, strict=True):
        child.base_ns, child.new_ns = base_ns, new_ns


def _explain(leaf: Node, units: tuple[int, int], clock: Fraction | None) -> None:
    exact = effects_of(leaf.pairs[0], units, clock)
    names = list(exact)
    result = apportion(leaf.delta_ns, [exact[name] for name in names])
    leaf.effects = dict.fromkeys(EFFECTS, 0) | dict(zip(names, result, strict=True))


def _sum_effects(node: Node) -> None:
    node.effects = {name: sum(child.effects[name] for child in node.children) for name in EFFECTS}


def _sum_up(node: Node) -> None:
    for child in node.children:
        if child.level != "work":
            _sum_up(child)
    for name in ("base_ns", "new_ns"):
        setattr(node, name, sum(getattr(child, name) for child in node.children))
    _sum_effects(node)
    node.children.sort(key=lambda child: -abs(child.delta_ns))


def apportion(total: int, exact: Sequence[Fraction]) -> list[int]:
    """Return integers that add up to a total, each less than 1 from its exact value.

    Every value is rounded down, and the values with the largest remainders get the rest (the
    largest remainder method). A value of 0 stays 0 unless all values are 0.
    """
    results = [value.numerator // value.denominator for value in exact]
    missing = total - sum(results)
    open_places = [place for place, value in enumerate(exact) if value] or list(range(len(exact)))
    if not open_places:
        return []
    open_places.sort(key=lambda place: results[place] - exact[place])
    each, rest = divmod(missing, len(open_places))
    for number, place in enumerate(open_places):
        results[place] += each + (number < rest)
    return results


def rounded(value: Fraction) -> int:
    """Round to the nearest integer, halves away from zero."""
    size = (2 * abs(value.numerator) + value.denominator) // (2 * value.denominator)
    return size if value >= 0 else -size
