"""The page of runs: charts of the paper's figures, with values of tracekit and the paper."""

import json
from html import unescape
from pathlib import Path
from unittest.mock import Mock

import pytest
from every_trace import REPO

import tracekit
from tracekit.analysis.result import Column, Result
from tracekit.errors import TraceError, UsageError
from tracekit.paper.tables import find_table, load_tables
from tracekit.plot import chart_names, find_chart
from tracekit.report import runs_page
from tracekit.report.paper_figures import PHASES, ROLES, decoder_chart, decoder_of
from tracekit.report.sections import RUN_SECTIONS

RUNS = [REPO / "sample_traces", REPO / "docs" / "samples" / "made_up_bench"]


@pytest.fixture(scope="module")
def html():
    with tracekit.open(*RUNS, traces=False, cache=False) as runs:
        return runs_page(runs, ["my runs", "bench"])


def test_every_figure_that_runs_have_is_drawn(html, page_data):
    charts = page_data(html)["charts"]
    ours = {name for section in RUN_SECTIONS for name in section.charts}
    # No two of the bundled runs differ in the number of their ranks alone.
    assert ours - set(charts) == {"scaling"}
    drawn = {f"paper_table{t}_A800_{c}" for t in (3, 9) for c in ("tokens_per_s", "memory_gb")}
    assert set(charts) - ours == drawn
    for section in RUN_SECTIONS:
        assert set(section.charts) <= set(chart_names())
        assert {*section.published, *section.pictured} <= set(load_tables())


def test_rows_are_those_of_the_analyses_and_of_the_paper(html, page_data):
    data = page_data(html)["data"]
    with tracekit.open(*RUNS, traces=False, cache=False) as runs:
        for name in ("methods", "throughput", "bench_gemm", "bench_collectives"):
            expected = json.loads(json.dumps(runs.query(name).rows))
            assert data[name]["rows"] == expected, name
    printed = find_table("table3").to_result("A800")
    assert data["paper_table3_A800"]["rows"] == [list(row) for row in printed.rows]
    assert "tracekit query methods &#x27;my runs&#x27; bench --format json" in html


def test_scaling_is_drawn_of_runs_that_differ_in_their_ranks_alone():
    names = ("model", "stage", "method", "engine", "device", "batch_size", "sequence_length")
    names += ("world_size", "mean_tokens_per_s", "speedup", "efficiency_pct", "base_world_size")
    names += ("run",)
    columns = tuple(Column(name, "VARCHAR") for name in names)
    one = ("7b", "pretrain", "Z3", "ddp", "a100", 1, 350)
    rows = [
        (*one, 1, 100.0, 1.0, 100.0, 1, "a"),
        (*one, 8, 720.0, 7.2, 90.0, 1, "b"),
        ("7b", "pretrain", "Q", "ddp", "a100", 1, 350, 8, 9.0, 1.0, 100.0, 8, "c"),
    ]
    drawn = find_chart("scaling").chart({"scaling": Result("scaling", columns, rows)})
    label = "7b · pretrain · Z3 · ddp · 1 · 350"
    assert drawn.spec["encoding"]["color"]["scale"]["domain"] == [label]
    assert find_chart("scaling").chart({"scaling": Result("scaling", columns, rows[1:])}) is None


def test_runs_without_a_figure_are_refused(make_run):
    folder = make_run("other", [], stage="serve")
    with (
        tracekit.open(folder, traces=False, cache=False) as runs,
        pytest.raises(UsageError, match="no data for a figure"),
    ):
        runs_page(runs, ["other"])


@pytest.mark.nightly("draws the figures of complete runs")
def test_the_command_writes_the_page(cli, tmp_path):
    out = tmp_path / "figures.html"
    done = cli("compare", "paper", "--pictures", out, RUNS[1])
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    assert done.stderr.startswith(f"{out}: ")
    assert "bench_gemm" in out.read_text("utf-8")
    done = cli("compare", "paper", "--pictures", out)
    assert done.exit_code == 2
    assert "which runs?" in done.stderr


@pytest.mark.nightly("needs a browser")
def test_the_page_is_drawn_without_a_word(html, in_browser):
    report = in_browser(html)
    assert report.messages == []
    assert report.requests == [report.file.as_uri()]
    for figure in report.page.locator("figure[data-chart]").all():
        assert figure.locator("svg svg > *").count(), figure.get_attribute("data-chart")


SAMPLES = REPO / "sample_traces"


@pytest.mark.nightly("reads complete runs")
def test_rows_are_those_of_the_analysis_on_the_first_rank(opened):
    def roles_of(folder):
        return opened(Path(folder)).query("roles")

    with tracekit.open(SAMPLES, traces=False, cache=False) as runs:
        decoder = decoder_of(runs, roles_of)
        html = runs_page(runs, [str(SAMPLES)], roles_of)
    assert not decoder.why_not
    found = decoder.rows.to_dicts()
    for run in ("pretrain_Naive", "pretrain_R+Z3"):
        expected = [
            (row["phase"], row["role"], row["wall_ns"], row["phase_pct"])
            for row in opened(SAMPLES / run).query("roles").to_dicts()
            if row["rank"] == 0 and row["phase"] in PHASES and row["role"] in ROLES
        ]
        drawn_rows = [
            (row["phase"], row["role"], row["wall_ns"], row["phase_pct"])
            for row in found
            if row["run"] == run
        ]
        assert drawn_rows == expected
        assert ("backward", "MLP") in {row[:2] for row in drawn_rows}
        assert f"tracekit query roles {SAMPLES / run} --format json" in unescape(html)
    assert {row["method"] for row in found} == {"Naive", "R+Z3"}
    assert decoder_chart(decoder.rows) is not None
    assert 'data-chart="decoder_roles"' in html


def test_a_missing_chart_has_a_reason(make_run):
    refused = Mock(side_effect=TraceError("no trace found in this folder"))
    naive = make_run("naive", opt="Naive", outcome="ok")
    # The letter in a name does not mean recomputation.
    other = make_run("other", opt="LoRA", outcome="ok")
    with tracekit.open(naive, other, traces=False, cache=False) as runs:
        decoder = decoder_of(runs, refused)
    assert len(decoder.why_not) == 1
    with_it = make_run("with", opt="R+Z3", outcome="ok")
    with tracekit.open(naive, with_it, traces=False, cache=False) as runs:
        decoder = decoder_of(runs, refused)
    assert [why.split(":")[0] for why in decoder.why_not] == ["naive is missing", "with is missing"]
    assert decoder_chart(decoder.rows) is None
    serving = make_run("serving", stage="serve")
    with tracekit.open(serving, traces=False, cache=False) as runs:
        assert decoder_of(runs, refused) is None
