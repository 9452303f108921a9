"""What shows figures computes none: sums, means and shares are columns of analyses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracekit

ROOMS = Path(tracekit.__file__).parent
CALLS = {"sum", "fsum", "mean", "fmean", "median", "stdev", "pstdev", "quantiles", "math.fsum"}
IN_RENDER = {
    # How many cells of the screen something takes, and which block stands for a value.
    "_bars.py": {"stacked_bar", "share_bar", "cells_of", "_block"},
    "_grid.py": {"_total"},
    # Where on the screen a point lies, and the numbers that name its axes.
    # How many tokens a text takes, how many rows there are, and what still fits.
    "brief.py": {"token_count", "counted", "brief", "_fitting"},
    "_curves.py": {"curve_lines", "_draw", "rate_at", "rate_curve_lines"},
    # The sum of those rows for which there is no room, and how many these are.
    "sections/comparison.py": {"_shown", "_work"},
    # Parameters in billions: a unit.
    "sections/trace.py": {"_parameters"},
}

IN_PAPER = {
    # How many times as large a model is as the one beside it.
    "comparison.py": {"_nearest_model"},
    # A time in the unit of the table.
    "measures.py": {"_amount"},
    # How many lines have no run, and how far apart two numbers have to be to be shown as two.
    "presentation.py": {"count_without_run", "_is_range"},
}

IN_REPORT = {
    # How many bytes rows take of what a page may.
    "budget.py": {"cut"},
    # Where a part of the waterfall begins: behind those before it.
    "comparison_page.py": {"_waterfall"},
    # How many events of the page are drawn, and how many of its tiles stand for.
    "events.py": {"left_out"},
}

IN_EXPORT = {
    # Numbers of tracks, and how many slices, events and bytes were written.
    "chrome.py": {"group", "track"},
    "lanes.py": {"place"},
    "output.py": {"write"},
    "perfetto.py": {"_descriptor", "finish"},
    "scene.py": {"slices", "_add"},
    "tracks.py": {"_write_events"},
    # Times of a call in µs.
    "op_program.py": {"_case_of"},
    # Where the axis of a profile ends: behind all its samples.
    "stacks.py": {"_speedscope"},
    # A shift of clocks in µs.
    "selection.py": {"axis_of"},
}

ALLOWED = {
    "render": IN_RENDER,
    "paper": IN_PAPER,
    "report": IN_REPORT,
    "export": IN_EXPORT,
    "plot": {},
    "browse": {},
}

# Two runs are two stores: what comes of both is in no SQL. It is computed in these files alone,
# from rows of analyses; the others of these rooms find, read, name and show.
ARITHMETIC = {
    "comparison": {
        # Sums of rows, what they add up to, and what differs.
        *("cells.py", "comparing.py", "effects.py", "tree.py"),
        # How like two places or pieces of work are.
        *("matching.py", "places.py"),
        # Statistics.
        *("bootstrap.py", "measures.py", "noise.py", "quantiles.py", "serving.py"),
        # Shares of what was found, which are columns of the tables.
        *("tables.py", "setup.py"),
    },
    "checking": {
        # The figures that rules name, of one run, and how they stand to those of a base.
        *("measured.py", "evaluate.py", "baseline.py"),
        # A percentage of a rule as a share.
        "rules.py",
        # How many rules failed.
        "report.py",
        # How many runs a session has profiled.
        "pytest_plugin.py",
    },
}


def is_figure(division: ast.BinOp) -> bool:
    """Whether something is divided: not a path joined, nor only told in another unit."""
    if isinstance(division.right, ast.Name) and "_PER_" in division.right.id:
        return False
    side: ast.expr = division
    while isinstance(side, ast.BinOp) and isinstance(side.op, ast.Div):
        is_text = isinstance(side.right, ast.Constant) and isinstance(side.right.value, str)
        if is_text or isinstance(side.right, ast.JoinedStr):
            return False
        side = side.left
    return True


def computed(tree: ast.AST, function: str = "") -> Iterator[tuple[str, str]]:
    """Yield the functions that divide or sum, and what in them does so."""
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef) and not function else function
        # Floor division and remainders lay out text; a path is joined by `/` as well.
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and is_figure(node):
            yield inside, ast.unparse(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in CALLS:
            yield inside, ast.unparse(node)
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.target, ast.Attribute)
            and not isinstance(node.op, ast.BitOr)
        ):
            yield inside, ast.unparse(node)
        yield from computed(node, inside)


def found_in(room: str) -> dict[str, dict[str, set[str]]]:
    """Return what computes in a room: texts by function and file."""
    found: dict[str, dict[str, set[str]]] = {}
    for path in sorted((ROOMS / room).rglob("*.py")):
        name = path.relative_to(ROOMS / room).as_posix()
        for function, text in computed(ast.parse(path.read_text("utf-8"))):
            found.setdefault(name, {}).setdefault(function, set()).add(text)
    return found


@pytest.mark.parametrize("room", ALLOWED)
def test_no_figure_is_computed(room: str) -> None:
    found = found_in(room)
    texts = [
        f"{room}/{name}: {function}: {', '.join(sorted(texts))}"
        for name, functions in found.items()
        for function, texts in functions.items()
        if function not in ALLOWED[room].get(name, ())
    ]
    assert texts == []
    # An exception that nobody needs any more goes.
    needed = {name: set(functions) for name, functions in found.items()}
    assert {name: needed.get(name, set()) & given for name, given in ALLOWED[room].items()} == (
        ALLOWED[room]
    )


@pytest.mark.parametrize("room", ARITHMETIC)
def test_of_two_runs_only_some_files_compute(room: str) -> None:
    assert found_in(room).keys() <= ARITHMETIC[room]


def test_the_check_sees_what_it_is_for() -> None:
    text = "def f(rows):\n    total.ns += 1\n    return sum(rows) / fmean(rows)\n"
    assert [function for function, _ in computed(ast.parse(text))] == ["f"] * 4
