"""`tracekit query`: options and help from the SQL header."""

import json
from pathlib import Path

import pytest

from tracekit.analysis.catalog import load_catalog
from tracekit.cli._main import SUBCOMMANDS
from tracekit.cli.query import QUESTIONS
from tracekit.cli.query import command as query

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


def test_an_analysis_runs_with_its_defaults(tracekit_command, fake_trace):
    outcome = tracekit_command("query", "kernels", "a.json", "b.json", "--format", "json")
    assert outcome.exit_code == 0
    assert json.loads(outcome.stdout) == [
        {"name": "gemm", "dur_ns": 2_000_000},
        {"name": "norm", "dur_ns": 250_000},
    ]
    assert outcome.stderr == ""
    assert fake_trace.opened_with["paths"] == ("a.json", "b.json")
    assert fake_trace.opened_with["cache"] is True
    assert fake_trace.opened_with["is_unsafe"] is False
    assert fake_trace.is_closed


def test_parameters_are_options(tracekit_command):
    outcome = tracekit_command(
        "query", "kernels", "x", "--limit", "1", "--min-gap-ns", "600000", "--format", "csv"
    )
    assert outcome.stdout == "name,dur_ns\ngemm,1500000\n"
    outcome = tracekit_command("query", "kernels", "x", "--no-exact", "--format", "csv")
    assert outcome.stdout == "name,dur_ns\n"


def test_cache_and_rules_are_passed_on(tracekit_command, fake_trace):
    tracekit_command("query", "kernels", "x", "--no-cache", "--rules", "my.toml")
    assert fake_trace.opened_with["cache"] is False
    assert fake_trace.opened_with["rules"] == Path("my.toml")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "named"),
    [
        (["kernls", "x"], 5, "kernels"),
        (["kernels"], 2, "TRACE..."),
        (["kernels", "x", "--limit", "many"], 2, "--limit"),
        (["kernels", "x", "--limit", str(2**63)], 2, "9223372036854775808"),
        (["kernels", "x", "--sort", "name"], 2, "--sort"),
        (["kernels", "x", "--lmit", "1"], 2, "--lmit"),
        (["steps", "x"], 2, "--number"),
        (["get_temporal_breakdown", "x"], 5, "timeline"),
        ([], 2, "query --list"),
    ],
)
def test_mistakes_are_named(tracekit_command, arguments, exit_code, named):
    outcome = tracekit_command("query", *arguments)
    assert (outcome.exit_code, outcome.stdout) == (exit_code, "")
    assert outcome.stderr.startswith("error: ")
    assert named in outcome.stderr


def test_the_trace_before_the_name_is_a_usage_error(tracekit_command, tmp_path):
    file = tmp_path / "rank0.json"
    file.touch()
    outcome = tracekit_command("query", str(file), "kernels")
    assert outcome.exit_code == 2
    assert "hint: pass the name first: query NAME TRACE" in outcome.stderr


def test_the_list_shows_names_and_descriptions(tracekit_command):
    outcome = tracekit_command("query", "--list", "--format", "json")
    first, second = json.loads(outcome.stdout)
    assert first == {
        "name": "kernels",
        "subject": "analyses",
        "scope": "trace",
        "description": "Which kernels held the device longest?",
        "per": "",
        "file": "tracekit",
    }
    assert (second["name"], second["scope"]) == ("steps", "run")
    assert "\nAnalyses\n  kernels  Which kernels" in tracekit_command("query", "--list").stdout


def test_explain_prints_the_file_and_needs_no_trace(tracekit_command, fake_trace):
    outcome = tracekit_command("query", "kernels", "--explain")
    assert outcome.exit_code == 0
    assert outcome.stdout.rstrip() == fake_trace.catalog.analysis("kernels").sql.rstrip()
    assert fake_trace.opened_with == {}


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
    with pytest.warns(FutureWarning, match="layers"):
        opened(trace).query("repeated_layers")


def test_every_analysis_of_the_package_makes_a_command():
    import click

    with click.Context(query) as ctx:
        for name in load_catalog().analyses:
            made = query.get_command(ctx, name)
            text = made.get_help(click.Context(made, info_name=name, terminal_width=100))
            is_long = len(load_catalog().analyses[name].columns) > 12
            assert is_long or text.count("\n") < 24, name


@pytest.mark.parametrize("analysis", ["request_steps", "parallel_groups"])
def test_an_analysis_without_rows_says_why(cli, analysis):
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
