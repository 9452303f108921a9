"""Notebook output of results and traces: escaped, limited, and in readable units."""

import re
from html import unescape

import pytest
from every_trace import REPO
from traces_by_hand import kernel

import tracekit
from tracekit.analysis.result import Column, Result

NAME = Column("name", "VARCHAR")
HOSTILE = '<img src=x onerror="alert(1)">\x1b[2J\u202e&amp; $x$'


def cells(html):
    """Return the texts of a table's cells, row by row."""
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [[unescape(one) for one in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", r)] for r in rows]


def result_of(rows, *columns, name="kernels"):
    return Result(name, columns, rows)


def test_units_are_scaled_as_in_a_table_and_the_header_names_them():
    columns = (NAME, Column("kernel_ns", "BIGINT"), Column("moved_bytes", "BIGINT"))
    html = result_of([("mm", 4_186_000, 1_250_000), ("add", None, 0)], *columns)._repr_html_()
    assert cells(html) == [
        ["name", "kernel ms", "moved MB"],
        ["mm", "4.186", "1.250"],
        ["add", "–", "0.000"],
    ]
    assert "<p" in html
    assert "kernels: 2 rows" in html


def test_values_of_a_statement_are_as_they_are():
    html = result_of([(2**63 - 1,)], Column("dur_ns", "BIGINT"), name="sql")._repr_html_()
    assert cells(html) == [["dur_ns"], [str(2**63 - 1)]]


def test_text_from_a_trace_never_becomes_html():
    html = result_of([(HOSTILE,)], Column(HOSTILE, "VARCHAR"), name=HOSTILE)._repr_html_()
    assert set(re.findall(r"<(\w+)", html)) == {"table", "thead", "tbody", "tr", "th", "td", "p"}
    shown = r'<img src=x onerror="alert(1)">\x1b[2J\u202e&amp; $x$'
    assert cells(html)[0] == [shown]
    assert cells(html)[1][0].startswith(shown)
    assert "mathjax_ignore" in html
    assert "\x1b" not in html
    assert "\u202e" not in html


@pytest.mark.parametrize(
    ("count", "shown", "note"),
    [
        (0, 0, "kernels: 0 rows"),
        (1, 1, "kernels: 1 row"),
        (20, 20, "kernels: 20 rows"),
        (1_021, 20, "the first 20 of 1,021 rows, 1,001 are not shown"),
    ],
)
def test_rows_are_bounded_and_the_rest_is_counted(count, shown, note):
    html = result_of([(f"k{index}",) for index in range(count)], NAME)._repr_html_()
    assert html.count("<td") == shown
    assert note in html


def test_a_long_cell_is_cut():
    html = result_of([("x" * 1_000_000,)], NAME)._repr_html_()
    assert len(html) < 1_000
    assert "x…" in html


def test_a_trace_lists_its_contents(opened):
    trace = opened(REPO / "sample_traces" / "pretrain_R+Z3")
    html = trace._repr_html_()
    assert "ranks 0–1 of 2" in html
    for row in trace.query("timeline").to_dicts():
        assert f"rank {row['rank']} · cpu" in html
        assert f"{row['window_ns'] / 1_000_000:,.1f}" in html
    (health,) = [line for line in html.splitlines() if line.startswith("Data quality")]
    assert "warning" in health
    assert html.startswith("<pre")
    assert html.endswith("</pre>")


def test_a_hostile_file_name_is_escaped(tiny_trace):
    path = tiny_trace([kernel("k", 1, 3)], name="<b>&.json")
    with tracekit.open(path, cache=False) as trace:
        html = trace._repr_html_()
    assert "&lt;b&gt;&amp;.json" in html
    assert "<b>" not in html
    assert trace._repr_html_() == "<p>the trace is closed</p>"


def test_runs_without_traces_are_a_table(make_run):
    folder = make_run("one", into="runs").parent
    make_run("two", into="runs")
    with tracekit.open(folder) as trace:
        rows = cells(trace._repr_html_())
    assert [row[:2] for row in rows[:3]] == [
        ["run", "stage"],
        ["one", "pretrain"],
        ["two", "pretrain"],
    ]
