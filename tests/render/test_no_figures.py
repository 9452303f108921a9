"""What shows figures computes none: sums, means and shares are columns of analyses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracekit.paper
import tracekit.render

RENDER = Path(tracekit.render.__file__).parent
PAPER = Path(tracekit.paper.__file__).parent
CALLS = {"sum", "fsum", "mean", "fmean", "median", "stdev", "pstdev", "quantiles", "math.fsum"}
ALLOWED = {
    # How many cells of the screen something takes.
    "_bars.py": {"stacked_bar", "share_bar", "cells_of"},
    "_grid.py": {"_total"},
    # Which block character stands for a value.
    "_strip.py": {"_block"},
    # Where on the screen a point lies, and the numbers that name its axes.
    "_curve.py": {"curve_lines", "_draw"},
    "_rate_curve.py": {"rate_at", "rate_curve_lines"},
    # The sum of those rows for which there is no room, and how many these are.
    "sections/comparison_split.py": {"_shown", "_work"},
    # Parameters in billions: a unit.
    "sections/run.py": {"_parameters"},
}

ALLOWED_IN_PAPER = {
    # Means over the devices of a run, which no analysis gives.
    "whole_model.py": {"_mean"},
    # How many times as large a model is as the one beside it.
    "matching.py": {"_model_beside"},
    # How many lines have no run, and how far apart two numbers have to be to be shown as two.
    "presentation.py": {"count_without_run", "_is_range"},
}


def is_unit(division: ast.BinOp) -> bool:
    """Whether something is only told in another unit."""
    return isinstance(division.right, ast.Name) and "_PER_" in division.right.id


def computed(tree: ast.AST, function: str = "") -> Iterator[tuple[str, str]]:
    """Yield the functions that divide or sum, and what in them does so."""
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef) and not function else function
        # Floor division and remainders lay out text; a path is joined by `/` as well.
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not is_unit(node):
            yield inside, ast.unparse(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in CALLS:
            yield inside, ast.unparse(node)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
            yield inside, ast.unparse(node)
        yield from computed(node, inside)


@pytest.mark.parametrize(("folder", "allowed"), [(RENDER, ALLOWED), (PAPER, ALLOWED_IN_PAPER)])
def test_no_figure_is_computed(folder: Path, allowed: dict[str, set[str]]) -> None:
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    found: dict[str, set[str]] = {}
    texts = []
    for name, path in files.items():
        for function, text in computed(ast.parse(path.read_text("utf-8"))):
            found.setdefault(name, set()).add(function)
            if function not in allowed.get(name, ()):
                texts.append(f"{name}: {function}: {text}")
    assert texts == []
    # An exception that nobody needs any more goes.
    assert found == allowed


def test_the_check_sees_what_it_is_for() -> None:
    text = "def f(rows):\n    total.ns += 1\n    return sum(rows) / fmean(rows)\n"
    assert [function for function, _ in computed(ast.parse(text))] == ["f"] * 4
