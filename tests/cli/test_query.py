"""`tracekit query`: options and help come from the header of the SQL file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracekit.analysis.catalog import load_catalog
from tracekit.cli.query import QUESTIONS
from tracekit.cli.query import command as query

Command = Callable[..., Any]
SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"


def test_an_analysis_runs_with_its_defaults(tracekit_command: Command, fake_trace: Any) -> None:
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


def test_the_table_has_readable_units(tracekit_command: Command) -> None:
    assert tracekit_command("query", "kernels", "x").stdout.splitlines() == [
        "name  dur ms",
        "────  ──────",
        "gemm   2.000",
        "norm   0.250",
    ]


def test_parameters_are_options(tracekit_command: Command) -> None:
    outcome = tracekit_command(
        "query", "kernels", "x", "--limit", "1", "--min-gap-ns", "600000", "--format", "csv"
    )
    assert outcome.stdout == "name,dur_ns\ngemm,1500000\n"
    outcome = tracekit_command("query", "kernels", "x", "--no-exact", "--format", "csv")
    assert outcome.stdout == "name,dur_ns\n"


def test_cache_and_rules_are_passed_on(tracekit_command: Command, fake_trace: Any) -> None:
    tracekit_command("query", "kernels", "x", "--no-cache", "--rules", "my.toml")
    assert fake_trace.opened_with["cache"] is False
    assert fake_trace.opened_with["rules"] == Path("my.toml")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["kernls", "x"], 5, "error: there is no analysis named 'kernls'\nhint: did you mean kern"),
        (["kernels"], 2, "error: Missing argument 'TRACE...'"),
        (["kernels", "x", "--limit", "many"], 2, "error: Invalid value for '--limit'"),
        (["kernels", "x", "--limit", str(2**63)], 2, "error: limit: 9223372036854775808 is out"),
        (["kernels", "x", "--sort", "name"], 2, "error: Invalid value for '--sort'"),
        (["kernels", "x", "--lmit", "1"], 2, "error: No such option"),
        (["steps", "x"], 2, "error: Missing option '--number'"),
        (
            ["get_temporal_breakdown", "x"],
            5,
            "error: there is no analysis named 'get_temporal_breakdown'\nhint: here it is timel",
        ),
        ([], 2, "error: which analysis?\nhint: tracekit query --list shows them"),
    ],
)
def test_mistakes_are_named(
    tracekit_command: Command, arguments: list[str], exit_code: int, message: str
) -> None:
    outcome = tracekit_command("query", *arguments)
    assert outcome.exit_code == exit_code
    assert outcome.stderr.startswith(message)
    assert outcome.stdout == ""


def test_the_trace_before_the_name_is_a_usage_error(
    tracekit_command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "rank0.json"
    file.touch()
    outcome = tracekit_command("query", str(file), "kernels")
    assert outcome.exit_code == 2
    assert "hint: the name comes first: query NAME TRACE" in outcome.stderr


def test_the_list_shows_names_and_questions(tracekit_command: Command) -> None:
    outcome = tracekit_command("query", "--list", "--format", "json")
    assert json.loads(outcome.stdout) == [
        {
            "name": "kernels",
            "subject": "analyses",
            "scope": "trace",
            "question": "Which kernels held the device longest?",
            "family": "",
            "file": "tracekit",
        },
        {
            "name": "steps",
            "subject": "analyses",
            "scope": "run",
            "question": "How long did step $number take?",
            "family": "",
            "file": "tracekit",
        },
    ]
    assert "kernels  analyses  trace  Which kernels" in tracekit_command("query", "--list").stdout


def test_explain_prints_the_file_and_needs_no_trace(
    tracekit_command: Command, fake_trace: Any
) -> None:
    outcome = tracekit_command("query", "kernels", "--explain")
    assert outcome.exit_code == 0
    assert outcome.stdout.rstrip() == fake_trace.catalog.analysis("kernels").sql.rstrip()
    assert fake_trace.opened_with == {}


def test_help_of_an_analysis_comes_from_its_header(tracekit_command: Command) -> None:
    text = tracekit_command("query", "kernels", "--help").stdout
    for part in (
        "Which kernels held the device longest?",
        "The longest first.",
        "--limit INTEGER",
        "rows; 0 for all  [default: 20]",
        "--min-gap-ns INTEGER",
        "shortest gap, ns",
        "--sort [total|mean]",
        "--exact / --no-exact",
        "dur_ns  BIGINT   sum of its durations, ns",
        "dur_ns >= 0",
    ):
        assert part in text, part
    assert "NULL" not in text


def test_help_of_query_lists_the_analyses(tracekit_command: Command) -> None:
    text = tracekit_command("query", "--help").stdout
    assert "kernels" in text
    assert "How long did step $number take?" in text


def test_every_analysis_of_the_package_makes_a_command() -> None:
    import click

    with click.Context(query) as ctx:
        for name in load_catalog().analyses:
            made = query.get_command(ctx, name)  # type: ignore[attr-defined]
            assert made is not None
            assert made.get_help(click.Context(made, info_name=name))


@pytest.mark.parametrize(
    ("analysis", "trace", "reason"),
    [
        (
            "request_steps",
            "serve_vllm",
            "the requests of the run do not name the steps of the engine that served them",
        ),
        ("request_steps", "finetune_QL", "the run has no requests"),
        ("parallel_groups", "finetune_QL", "the traces list the ranks of no process group"),
        (
            "pipeline_bubbles",
            "finetune_QL",
            (
                "no group of ranks that the traces list is a pipeline, "
                "by its description or by sends and receives in it"
            ),
        ),
    ],
)
def test_an_analysis_without_rows_says_why(
    cli: Command, analysis: str, trace: str, reason: str
) -> None:
    done = cli("query", analysis, SAMPLES / trace, "--format", "json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, [])
    assert done.stderr.splitlines()[-1] == f"note: {reason}"


def test_the_list_begins_with_the_questions_of_the_manual(cli: Command) -> None:
    outcome = cli("query", "--list")
    questions, _, rows = outcome.stdout.partition("\n\n")
    page = (SAMPLES.parent / "docs" / "how-to" / "questions.md").read_text("utf-8")
    headings = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert [line.partition("  ")[0] for line in questions.splitlines()] == headings
    for _, way in QUESTIONS:
        name, *words = way.split()
        assert name != "query" or words[0] in load_catalog().analyses
    assert "advice_sync" not in rows
    assert "idle_causes" in rows
    assert "advice_sync" in cli("query", "--list", "--all").stdout
    subjects = [
        row["subject"] for row in json.loads(cli("query", "--list", "--format", "json").stdout)
    ]
    assert subjects == sorted(subjects)
