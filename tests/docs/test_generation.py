"""The generator of the manual rejects incorrect input; the page with an analysis of its own."""

import pytest
from generate.event_members import event_members
from generate.own_page import make_files, own_page
from generate.places import OWN_PAGE, REPO
from generate.sessions import FailsNowError, with_outputs
from generate.subjects import UnknownSubjectError, by_subject
from msgspec.structs import replace

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.event_description import EVENT_COLUMNS, KINDS, MEMORY_COLUMNS

WRONG = "tracekit query timelin sample_traces/finetune_QL"


def test_an_error_is_not_written_where_an_output_stood(tmp_path):
    page = f"```console\n$ {WRONG}\nrank  device\n```\n"
    with pytest.raises(FailsNowError, match="no analysis named 'timelin'"):
        with_outputs(page, tmp_path)


def test_an_error_that_a_page_shows_is_written_anew(tmp_path):
    page = f"```console\n$ {WRONG}\nerror: of yesterday\n```\n"
    now = with_outputs(page, tmp_path)
    assert "error: no analysis named 'timelin'\nhint: " in now
    assert "of yesterday" not in now


@pytest.mark.nightly("saves a baseline twice")
def test_files_written_by_a_page_are_removed(keep_stores, tmp_path):
    command = "tracekit check baseline save a sample_traces/pretrain_Naive --baselines build/a"
    for number in range(2):
        folder = tmp_path / str(number)
        keep_stores(folder / "cache", REPO / "sample_traces" / "pretrain_Naive")
        page = with_outputs(f"```console\n$ {command}\n```\n", folder)
        assert "\nbuild/a/a.baseline.json: " in page
    assert not (REPO / "build/a").exists()


def test_a_folder_without_a_description_is_rejected():
    spec = load_catalog().analyses["timeline"]
    with pytest.raises(UnknownSubjectError, match="the folder nowhere"):
        by_subject([replace(spec, subject="nowhere")])


def test_every_analysis_is_under_its_subject_once():
    analyses = load_catalog().analyses
    listed = {
        spec.name: subject.name
        for subject, inside in by_subject(analyses.values()).items()
        for spec in inside
    }
    assert listed == {name: spec.subject for name, spec in analyses.items()}


def test_every_member_argument_and_phase_of_an_event_is_shown():
    section = event_members("docs/reference/tables.md")
    for column in (*EVENT_COLUMNS, *MEMORY_COLUMNS):
        for key in column.keys:
            shown = f"args.{key}" if column.source == "argument" else key
            assert f"`{shown}`" in section
        assert f"`{column.name}`" in section
    assert "| `args.correlation` | `correlation` | BIGINT | links a launch" in section
    for kind in KINDS:
        # Rejected events can have any phase.
        if kind.phases:
            assert f"| [`{kind.name}`](#{kind.name}) | `{kind.phases[0]}`" in section


@pytest.mark.nightly("a page of the manual")
def test_commands_of_the_page_print_the_shown_output(tmp_path):
    make_files(tmp_path)
    assert own_page(tmp_path) == OWN_PAGE.read_text("utf-8"), "run: make docs-update"


def test_its_analysis_matches_plain_sql(tmp_path, sample_trace):
    make_files(tmp_path)
    with tracekit.open(sample_trace, cache=False, queries=tmp_path / "my-queries") as trace:
        got = trace.query("slow_ops", limit=0).to_dicts()
        right = trace.sql(
            "SELECT name, count(*), sum(dur_ns)::BIGINT FROM event "
            "WHERE category = 'cpu_op' GROUP BY name ORDER BY 3 DESC, 1"
        ).rows
    assert [(row["op"], row["op_count"], row["total_ns"]) for row in got] == right
    assert abs(sum(row["op_pct"] for row in got) - 100) < 1e-6
