"""Other shapes are said only of work whose shapes both sides tell."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tracekit.comparison.cells import Cell
from tracekit.comparison.effects import effects_of
from tracekit.comparison.matching import Match, Pair

DIMS, OTHER_DIMS = "[[4,8],[8,8]]", "[[8,8],[8,8]]"
GRID, OTHER_GRID = "[64,1,1]", "[128,1,1]"


def _cell(shape: str | None, name: str, kernel_ns: int) -> Cell:
    cell = Cell("compute", "gemm", "forward", "mlp", "aten::mm", shape, name, 2)
    cell.kernel_ns = cell.wall_ns = kernel_ns
    return cell


@pytest.mark.parametrize(
    ("shapes", "is_same_kernel", "match", "effect"),
    [
        ((DIMS, OTHER_DIMS), True, "name", "by_shape_ns"),
        ((DIMS, OTHER_DIMS), False, "op", "by_shape_ns"),
        ((GRID, OTHER_GRID), True, "name", "by_shape_ns"),
        # A grid is that of its kernel: of another kernel it says nothing about shapes.
        ((GRID, OTHER_GRID), False, "op", "by_kernel_ns"),
        # One side tells the op's arguments, the other side only a grid, or nothing.
        ((GRID, DIMS), True, "name", "by_cost_ns"),
        ((GRID, DIMS), False, "op", "by_kernel_ns"),
        ((GRID, None), True, "name", "by_cost_ns"),
        ((None, DIMS), False, "op", "by_kernel_ns"),
        ((None, None), True, "same", "by_cost_ns"),
    ],
)
def test_why_matched_work_takes_longer(
    shapes: tuple[str | None, str | None], is_same_kernel: bool, match: Match, effect: str
) -> None:
    base = _cell(shapes[0], "kernel", 1000)
    new = _cell(shapes[1], "kernel" if is_same_kernel else "another", 1300)
    found = effects_of(Pair("compute", "forward", "mlp", [base], [new], match), (1, 1), None)
    assert {name: ns for name, ns in found.items() if ns} == {effect: Fraction(300)}
