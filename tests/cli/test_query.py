"""`tracekit query`: options and help from the SQL header."""

import json

import pytest
from every_trace import REPO
from traces_by_hand import kernel

from tracekit.analysis.catalog import load_catalog
from tracekit.cli._main import SUBCOMMANDS
from tracekit.cli.commands.query import QUESTIONS
from tracekit.cli.commands.query import command as query

SAMPLES = REPO / "sample_traces"


def test_parameters_are_options(cli, tiny_trace, tmp_path):
    path = tiny_trace([kernel("gemm", 0, 3), kernel("norm", 4, 5)])
    done = cli("query", "kernels", path, "--limit", "1", "--no-cache", "--format", "json")
    assert [row["name"] for row in done.json()] == ["gemm"]
    assert not [*tmp_path.rglob("*.duckdb")]
    for option in ("--rollup", "--no-rollup"):
        assert cli("query", "modules", path, option).exit_code == 0
    assert cli("query", "kernels", path, "--limit", 2**63).exit_code == 2


def test_a_member_of_a_family_is_chosen_by_per(cli, opened):
    trace = SAMPLES / "pretrain_Naive"
    shown = cli("query", "phases", "--per", "step", trace, "--format", "csv")
    old = cli("query", "phase_steps", trace, "--format", "csv")
    assert old.stdout == shown.stdout != ""
    assert shown.stderr == ""
    (note,) = old.stderr.splitlines()
    assert "tracekit query phases --per step" in note
    assert "step_span_ns" in cli("query", "phases", "--per=step", "--help").stdout
    assert cli("query", "phases", "--per", "day", trace).exit_code == 5
    assert opened(trace).query("phases", per="total").name == "phase_totals"
    with pytest.warns(FutureWarning, match="layers") as caught:
        opened(trace).query("repeated_layers")
    assert caught[0].filename == __file__


def test_every_analysis_of_the_package_makes_a_command():
    import click

    with click.Context(query) as ctx:
        for name in load_catalog().analyses:
            made = query.get_command(ctx, name)
            text = made.get_help(click.Context(made, info_name=name, terminal_width=100))
            is_long = len(load_catalog().analyses[name].columns) > 12
            assert is_long or text.count("\n") < 24, name


@pytest.mark.parametrize("analysis", ["request_steps", "parallel_groups"])
def test_an_analysis_without_rows_has_a_reason(cli, analysis):
    done = cli("query", analysis, SAMPLES / "finetune_QL", "--format", "json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, [])
    assert done.stderr.splitlines()[-1].startswith("note: the ")


def test_the_list_begins_with_the_questions_of_the_manual(cli):
    outcome = cli("query", "--list")
    questions, _, rows = outcome.stdout.partition("\n\n")
    page = (SAMPLES.parent / "docs" / "how-to" / "questions.md").read_text("utf-8")
    headings = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert [line.partition("  ")[0] for line in questions.splitlines()] == headings
    for _, way in QUESTIONS:
        name, *words = way.split()
        assert name != "query" or words[0] in {*load_catalog().analyses, *SUBCOMMANDS}
    assert "advice_sync" not in rows
    assert "idle_causes" in rows
    assert "advice_sync" in cli("query", "--list", "--all").stdout
    subjects = [
        row["subject"] for row in json.loads(cli("query", "--list", "--format", "json").stdout)
    ]
    assert subjects == sorted(subjects)
