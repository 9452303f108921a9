"""Nothing that shows figures computes one: sums, means and shares are columns of analyses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tracekit.render

RENDER = Path(tracekit.render.__file__).parent
CALLS = {"sum", "fsum", "mean", "fmean", "median", "stdev", "pstdev", "quantiles", "math.fsum"}
ALLOWED = {
    # How many cells of the screen something takes.
    "_bars.py": {"stacked_bar", "share_bar", "cells_of"},
    "_grid.py": {"_total"},
    # Where on the screen a point lies, and the numbers that name its axes.
    "_curve.py": {"curve_lines", "_draw"},
    "_rate_curve.py": {"rate_at", "rate_curve_lines"},
    # How many files name no rank.
    "sections/trace.py": {"_ranks"},
    # Parameters in billions: a unit.
    "sections/run.py": {"_parameters"},
}


def computed(tree: ast.AST, function: str = "") -> Iterator[tuple[str, str]]:
    """Yield the functions that divide or sum, and what in them does so."""
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef) and not function else function
        # Floor division and remainders lay out text; a path is joined by `/` as well.
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield inside, ast.unparse(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in CALLS:
            yield inside, ast.unparse(node)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
            yield inside, ast.unparse(node)
        yield from computed(node, inside)


def test_renderers_compute_no_figure() -> None:
    files = {path.relative_to(RENDER).as_posix(): path for path in RENDER.rglob("*.py")}
    found: dict[str, set[str]] = {}
    texts = []
    for name, path in files.items():
        for function, text in computed(ast.parse(path.read_text("utf-8"))):
            found.setdefault(name, set()).add(function)
            if function not in ALLOWED.get(name, ()):
                texts.append(f"{name}: {function}: {text}")
    assert texts == []
    # An exception that nobody needs any more goes.
    assert found == ALLOWED


def test_the_check_sees_what_it_is_for() -> None:
    text = "def f(rows):\n    total.ns += 1\n    return sum(rows) / fmean(rows)\n"
    assert [function for function, _ in computed(ast.parse(text))] == ["f"] * 4
