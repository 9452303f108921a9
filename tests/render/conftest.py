"""Results of a trace made by hand, and hand-written ones."""

import io

import pytest
from every_trace import REPO
from given_rows import analysis_of, rows_of
from run_of_ranks import write_ranks

import tracekit
from tracekit.analysis.breakdown import RANKS_BREAKDOWN, TOTALS
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.library import reads
from tracekit.analysis.result import Column, Result
from tracekit.render import renderer


def make(name, columns, *rows):
    return Result(name, tuple(Column(*column) for column in columns.items()), list(rows))


def with_totals(data):
    """Add the totals that a breakdown computes from the given analyses."""
    specs = [load_catalog().analysis(TOTALS[name]) for name in data if name in TOTALS]
    required = {one.removesuffix("()") for spec in specs for one in reads(spec.name)}
    known = [
        rows_of(name, *(data[name].to_dicts() if name in data else []))
        for name in required
        if name in load_catalog().analyses
    ]
    return {**data, **{spec.name: analysis_of(spec.name, *known) for spec in specs}}


@pytest.fixture
def totalled():
    """Return a function that adds to results what reduces them, by the SQL that does so."""
    return with_totals


@pytest.fixture
def make_result():
    """Return a function that takes a name, columns (name to type) and rows."""
    return make


@pytest.fixture
def rendered(monkeypatch):
    def render(data, format_name, *, width=100, **settings):
        monkeypatch.setenv("COLUMNS", str(width))
        stream = io.StringIO()
        renderer(format_name)(data, stream, **settings)
        return stream.getvalue()

    return render


@pytest.fixture
def breakdown(opened):
    """Return the breakdown of a step made by hand, with one rank."""
    return {**opened(REPO / "docs" / "samples" / "made_up_step.json").breakdown()}


@pytest.fixture
def run_of(tmp_path):
    """Return a function that returns the breakdown of a number of ranks without their groups."""

    def build(count):
        with tracekit.open(*write_ranks(tmp_path / "run", count), cache=False) as trace:
            found = trace.breakdown()
        return {name: result for name, result in found.items() if name not in RANKS_BREAKDOWN}

    return build
