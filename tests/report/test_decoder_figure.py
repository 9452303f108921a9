"""The paper's Figure 5 of our runs: rows of analysis roles, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

import tracekit
from tracekit.analysis.result import Result
from tracekit.errors import TraceError
from tracekit.report import runs_page
from tracekit.report.paper_figures import PHASES, ROLES, decoder_chart, decoder_of

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
Opened = Callable[[Path], tracekit.Trace]


@pytest.mark.nightly("reads complete runs")
def test_rows_are_those_of_the_analysis_on_the_first_rank(opened: Opened) -> None:
    def roles_of(folder: str) -> Result:
        return opened(Path(folder)).query("roles")

    with tracekit.open(SAMPLES, traces=False, cache=False) as runs:
        decoder = decoder_of(runs, roles_of)
        html = runs_page(runs, [str(SAMPLES)], roles_of)
    assert decoder is not None
    assert not decoder.why_not
    found = decoder.rows.to_dicts()
    for run in ("pretrain_Naive", "pretrain_R+Z3"):
        asked = [
            (row["phase"], row["role"], row["wall_ns"], row["phase_pct"])
            for row in opened(SAMPLES / run).query("roles").to_dicts()
            if row["rank"] == 0 and row["phase"] in PHASES and row["role"] in ROLES
        ]
        told = [
            (row["phase"], row["role"], row["wall_ns"], row["phase_pct"])
            for row in found
            if row["run"] == run
        ]
        assert told == asked
        assert ("backward", "MLP") in {row[:2] for row in told}
        assert f"tracekit query roles {SAMPLES / run} --format json" in unescape(html)
    assert {row["method"] for row in found} == {"Naive", "R+Z3"}
    chart = decoder_chart(decoder.rows)
    assert chart is not None
    assert 'data-chart="decoder_roles"' in html


def test_it_says_why_it_is_not_drawn(make_run: Callable[..., Path]) -> None:
    def refused(folder: str) -> Result:
        raise TraceError(f"{folder}: there is no trace in this folder")

    naive = make_run("naive", opt="Naive", outcome="ok")
    # The letter alone is no recomputation.
    other = make_run("other", opt="LoRA", outcome="ok")
    with tracekit.open(naive, other, traces=False, cache=False) as runs:
        decoder = decoder_of(runs, refused)
    assert decoder is not None
    assert decoder.why_not == (
        "It compares runs with and without recomputation; all here are without it.",
    )
    with_it = make_run("with", opt="R+Z3", outcome="ok")
    with tracekit.open(naive, with_it, traces=False, cache=False) as runs:
        decoder = decoder_of(runs, refused)
    assert decoder is not None
    assert [why.split(":")[0] for why in decoder.why_not] == ["naive is missing", "with is missing"]
    assert decoder_chart(decoder.rows) is None
    serving = make_run("serving", stage="serve")
    with tracekit.open(serving, traces=False, cache=False) as runs:
        assert decoder_of(runs, refused) is None
