"""The reference is that of the code: what is generated is what is committed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from every_trace import SAMPLES
from opened_once import opened_once

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

from generate.analyses import FOLDER
from generate.notebooks import executed, notebooks
from generate.pages import generated
from generate.places import REFERENCE, REPO
from generate.sessions import WIDTH, run, sessions

from tracekit.analysis.catalog import load_catalog

HINT = "run: make docs-update"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, keep_stores: Callable[..., None]) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    keep_stores(folder / "cache", *SAMPLES)
    return folder


@pytest.fixture(scope="module")
def pages(folder: Path) -> dict[str, str]:
    with opened_once():
        return generated(folder)


def test_every_page_is_what_the_code_says(pages: dict[str, str]) -> None:
    for path, text in pages.items():
        assert (REPO / path).is_file(), f"{path} is missing; {HINT}"
        assert (REPO / path).read_text("utf-8") == text, f"{path}; {HINT}"


def test_no_page_is_left_of_what_is_gone(pages: dict[str, str]) -> None:
    there = {path.relative_to(REPO).as_posix() for path in REFERENCE.rglob("*.md")}
    assert there <= pages.keys(), HINT


WITHOUT_EXAMPLE = {
    *("stragglers", "pipeline_bubbles", "expert_balance"),
    *("all_to_all_pairs", "captured_kernels", "hung_collectives", "inspected_collectives"),
    *("counters_by_op", "energy", "contention"),
    *(one.name for one in load_catalog().analyses.titles() if one.subject == "advice"),
}
"""Analyses that are about what no bundled sample has: a run of four ranks and more, an accelerator,
faults, counters."""


def test_every_analysis_has_a_page_with_an_example_from_a_sample(pages: dict[str, str]) -> None:
    for name, spec in load_catalog().analyses.items():
        page = pages[f"{FOLDER}/{spec.subject}.md"].partition(f"\n## {name}\n")[2]
        page = page.partition("\n## ")[0]
        if name in WITHOUT_EXAMPLE and not sessions(page):
            continue
        ((command, output),) = sessions(page)
        assert command.startswith(f"tracekit query {name} "), name
        assert output.strip(), name
        for column in spec.columns:
            assert f"| `{column.name}` | {column.type} " in page


def test_the_picture_holds_no_address_but_its_namespace(pages: dict[str, str]) -> None:
    (svg,) = [text for path, text in pages.items() if path.endswith(".svg")]
    assert svg.count("http") == svg.count("http://www.w3.org/2000/svg") == 1
    assert ">rank&#160;0&#160;·&#160;cpu" in svg
    assert len(svg) < 50_000


def test_the_list_of_figures_names_columns_that_there_are() -> None:
    text = (REPO / "docs" / "find-a-figure.md").read_text("utf-8")
    named = re.findall(r"\[`(\w+)`\]\([^)]*\), column `(\w+)`", text)
    analyses = load_catalog().analyses
    assert len(named) > 40
    assert [one for one in named if one[1] not in analyses[one[0]].column_names] == []


@pytest.mark.parametrize("notebook", notebooks(), ids=lambda path: path.stem)
def test_notebooks_run_and_show_what_is_committed(notebook: Path, folder: Path) -> None:
    assert executed(notebook, folder) == notebook.read_text("utf-8"), HINT


def test_a_failing_cell_fails(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "broken.ipynb"
    path.write_text('{"cells": [{"cell_type": "code", "source": ["1 / 0"], "outputs": []}]}')
    with pytest.raises(ZeroDivisionError):
        executed(path, folder)


def test_commands_print_here_what_their_process_prints(folder: Path) -> None:
    """Commands are run in this process to save time; a shell must see the same."""
    for command in (
        "tracekit query timeline sample_traces/finetune_QL",
        "tracekit query timelin sample_traces/finetune_QL",
        "tracekit sql sample_traces/finetune_QL \"SELECT 'a|b' AS x, 1 > 2 AS y\" --format csv",
        "tracekit query --list | head -n 3",
    ):
        assert run(command, folder) == run(f"true && {command}", folder), command
    assert all(len(line) <= WIDTH for line in run("tracekit query --list", folder).splitlines())
