"""What is compared takes steps in proportion to what there is, whatever its shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tracekit.comparison import places
from tracekit.comparison.cells import Cell, ModuleNode, Side
from tracekit.comparison.matching import match_sides
from tracekit.comparison.places import align_modules


class _Counted(str):
    """A class name of a cell that counts how often it is looked at."""

    looks = 0

    def __hash__(self) -> int:
        _Counted.looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


def _side(nodes: dict[str, str | None], prefix: str, ns: Callable[[int], int]) -> Side:
    cells = []
    for number, path in enumerate(nodes):
        name = f"{prefix} {number}"
        cell = Cell("compute", _Counted("gemm"), "forward", path, name, None, name, 1)
        cell.kernel_ns = cell.wall_ns = ns(number)
        cells.append(cell)
    modules = {path: ModuleNode(path, parent, prefix) for path, parent in nodes.items()}
    total = sum(cell.wall_ns for cell in cells)
    return Side(prefix, "window", cells, modules, 1, 1, 1, ["window"], [1], 0, total)


def _siblings(count: int, prefix: str) -> dict[str, str | None]:
    """Return modules beside each other, each with the same and with a name of its own inside."""
    nodes: dict[str, str | None] = {"top": None}
    for number in range(count):
        one = f"top.{prefix}{number}"
        nodes[one] = "top"
        nodes |= dict.fromkeys((f"{one}.a", f"{one}.b", f"{one}.{prefix}{number}"), one)
    return nodes


def _nested(count: int, prefix: str) -> dict[str, str | None]:
    paths = [f"top/{prefix}{number}" for number in range(count)]
    return dict(zip(paths, [None, *paths], strict=False))


def _one_module(count: int, prefix: str) -> dict[str, str | None]:
    return {f"{prefix}{number}": None for number in range(count)}


@pytest.mark.parametrize("shape", [_siblings, _nested, _one_module])
def test_matching_looks_at_each_a_few_times(
    shape: Callable[[int, str], dict[str, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    for count in (400, 1600):
        compared = 0
        near = places._near

        def counted(*args: Any, near: Any = near) -> Any:
            nonlocal compared
            found = near(*args)
            compared += len(found)
            return found

        monkeypatch.setattr(places, "_near", counted)
        base = _side(shape(count, "left"), "left", lambda number: 1 << (number % 40))
        new = _side(shape(count, "right"), "right", lambda number: 3 << (number % 40))
        _Counted.looks = 0
        pairs = match_sides(base, new, align_modules(base.modules, new.modules))
        monkeypatch.undo()
        matched = [cell for pair in pairs for cell in (*pair.base, *pair.new)]
        assert sorted(map(id, matched)) == sorted(map(id, (*base.cells, *new.cells)))
        looks.append(_Counted.looks + compared)
    # Sixteen times were quadratic.
    assert looks[1] < 6 * looks[0]
