"""The reference is complete; committed notebooks, pictures, and stated numbers are current."""

import re

import click
import pytest
from every_trace import SAMPLES
from generate import analyses
from generate.analyses import page_of
from generate.markdown import slug
from generate.notebooks import executed, notebooks
from generate.pages import pages_of_sources, reference
from generate.picture import picture
from generate.places import REPO
from generate.sessions import WIDTH, run, sessions

from tracekit.analysis.catalog import load_catalog
from tracekit.cli._main import group
from tracekit.schema import TABLES

pytestmark = pytest.mark.nightly("makes the reference of the manual")

HINT = "run: make docs-update"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, keep_stores):
    folder = tmp_path_factory.mktemp("reference")
    keep_stores(folder / "cache", *SAMPLES)
    return folder


@pytest.fixture(scope="module")
def pages(folder):
    """Return the reference with the examples that two small samples give."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyses, "SAMPLES", ["docs/samples/made_up_step.json"])
        patch.setattr(analyses, "RUN_SAMPLES", ["docs/samples/made_up_bench"])
        return reference(folder)


def test_every_analysis_has_a_section_with_its_columns_and_an_example(pages):
    without_example = 0
    for name, spec in load_catalog().analyses.items():
        page = pages[page_of(spec.subject)].partition(f"\n## {name}\n")[2]
        page = page.partition("\n## ")[0]
        for column in spec.columns:
            assert f"| `{column.name}` | {column.type} " in page
        if not sessions(page):
            without_example += 1
            continue
        ((command, output),) = sessions(page)
        head, per = load_catalog().analyses.spelling(name)
        shown = f"{head} --per {per}" if per else name
        assert command.startswith(f"tracekit query {shown} "), name
        assert output.strip(), name
    assert without_example < len(load_catalog().analyses) / 2


def test_every_table_macro_and_command_has_a_section(pages):
    catalog = load_catalog()
    titles = {
        "tables": [table.name for table in TABLES],
        "derived": [*catalog.tables, *catalog.views],
        "macros": catalog.functions,
        "command-line": [f"tracekit {name}" for name in group.list_commands(click.Context(group))],
    }
    for page, names in titles.items():
        found = re.findall(r"^## (.*)$", pages[f"docs/reference/{page}.md"], re.MULTILINE)
        assert {*names} <= {*found}, page


def test_the_manifest_page_lists_the_outcomes_and_no_code(pages):
    page = pages["docs/reference/manifest.md"]
    for outcome in ("ok", "incomplete", "oom", "failed"):
        assert f"- `{outcome}`: " in page
    assert "class " not in page.partition("Outcomes")[2]


def test_sources_link_to_existing_sections(pages):
    for source, target in pages_of_sources().items():
        assert (REPO / source).exists()
        path, _, anchor = target.partition("#")
        titles = re.findall(r"^#+ (.*)$", pages[path], re.MULTILINE)
        assert not anchor or anchor in map(slug, titles), source


def test_the_picture_is_the_committed_one_and_has_no_address_but_its_namespace(folder):
    ((path, svg),) = picture(folder).items()
    assert (REPO / path).read_text("utf-8") == svg, HINT
    assert svg.count("http") == svg.count("http://www.w3.org/2000/svg") == 1
    assert "unprofiled" in svg
    assert len(svg) < 50_000


def test_the_list_of_figures_names_existing_columns():
    text = (REPO / "docs" / "find-a-figure.md").read_text("utf-8")
    named = re.findall(r"\[`(\w+)`\]\([^)]*\), column `(\w+)`", text)
    analyses = load_catalog().analyses
    assert len(named) > 40
    assert [one for one in named if one[1] not in analyses[one[0]].column_names] == []


@pytest.mark.parametrize("notebook", notebooks(), ids=lambda path: path.stem)
def test_notebooks_show_the_committed_output(notebook, folder):
    assert executed(notebook, folder) == notebook.read_text("utf-8"), HINT


def test_a_failing_cell_fails(tmp_path, folder):
    path = tmp_path / "broken.ipynb"
    path.write_text('{"cells": [{"cell_type": "code", "source": ["1 / 0"], "outputs": []}]}')
    with pytest.raises(ZeroDivisionError):
        executed(path, folder)


def test_commands_print_here_what_their_process_prints(folder):
    """Commands are run in this process to save time; a shell must see the same."""
    for command in (
        "tracekit query timeline sample_traces/finetune_QL",
        "tracekit query timelin sample_traces/finetune_QL",
        "tracekit sql sample_traces/finetune_QL \"SELECT 'a|b' AS x, 1 > 2 AS y\" --format csv",
        "tracekit query --list | head -n 3",
    ):
        assert run(command, folder) == run(f"true && {command}", folder), command
    assert all(len(line) <= WIDTH for line in run("tracekit query --list", folder).splitlines())


def text_of(page):
    """Return a page in one line, so that a sentence is found however it is broken."""
    return " ".join((REPO / "docs" / page).read_text("utf-8").split())


def test_the_finding_of_the_tutorial(opened):
    trace = opened(REPO / "sample_traces" / "h200_finetune_L")
    text = text_of("tutorial.md")
    (idle,) = trace.query("run_idle").to_dicts()
    steps = [row for row in trace.query("steps").to_dicts() if row["step"] is not None]
    (count,) = {row["kernel_count"] for row in steps}
    plain_ms, work_ms = idle["unprofiled_step_ns"] / 1e6, idle["work_ns"] / 1e6
    assert f"{work_ms:.0f} of {plain_ms:.0f} ms" in text
    assert f"took {idle['recorded_step_ns'] / 1e6:.0f} ms" in text
    assert f"{idle['idle_pct']:.0f} % of an" in text
    assert f"not {idle['recorded_idle_pct']:.0f} %" in text
    assert f"launches {count:,} kernels and copies" in text
    assert f"has {1e3 * plain_ms / count:.0f} µs" in text
    predicted = trace.predict("graph on").as_result().to_dicts()[0]
    left = [
        round(100 * predicted[n] / predicted["before_step_ns"])
        for n in ("predicted_step_ns", "low_step_ns", "high_step_ns")
    ]
    assert f"{left[0]} % of its present time ({left[1]} to {left[2]} %)" in text


def test_the_reasons_are_those_of_the_rules(opened):
    trace = opened(REPO / "docs" / "samples" / "made_up_step.json")
    reasons = trace.sql("FROM attribution_reasons()").rows
    text = (REPO / "docs" / "explanation" / "attribution.md").read_text("utf-8")
    table = text[text.index("| reason | basis |") :].split("\n\n")[0].splitlines()[2:]
    assert table == [f"| `{reason}` | {meaning} |" for reason, meaning in reasons]
