"""Runs every command in the README and the manual, and compares its output.

`python tests/test_readme.py` (or `make docs-update`) updates the outputs; review the diff before
you commit it.
"""

import contextlib
import doctest
import re
import runpy
from importlib.util import find_spec

import pytest
from every_trace import SAMPLES
from generate import __main__ as update
from generate.places import README, REPO, hand_written
from generate.sessions import (
    MAKE_DEMO,
    MEASURES,
    environment,
    opened_once,
    run,
    sessions,
    without_figures,
)

_PYCON = re.compile(r"(?<=```pycon\n).*?(?=```)", re.DOTALL)
_PYTHON = re.compile(r"(?<=```python\n).*?(?=```)", re.DOTALL)
# Examples that need only tracekit and a bundled sample.
_RUNS_ALONE = "import tracekit\n"

PAGES = [path.relative_to(REPO).as_posix() for path in hand_written()]
_OTHER_PAGE = pytest.mark.nightly("pages other than the README")


def _pages(shows):
    """Return the pages with commands; all pages except the README run nightly."""
    return [
        pytest.param(page, marks=() if page == README.name else _OTHER_PAGE)
        for page in PAGES
        if shows((REPO / page).read_text("utf-8"))
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, keep_stores):
    """Return the output folder of the commands of all pages, with ingested samples."""
    folder = tmp_path_factory.mktemp("manual")
    keep_stores(folder / "cache", *SAMPLES)
    # `make collect` and `make docs` create them, and need not run before the tests.
    for name in ("runs", "build"):
        (folder / name).mkdir()
    return folder


@pytest.fixture(scope="module", autouse=True)
def _shared_traces():
    """Let commands share open traces."""
    with opened_once():
        yield


@pytest.mark.parametrize("page", _pages(sessions))
def test_every_command_prints_what_the_page_shows(page, folder):
    for command, shown in sessions((REPO / page).read_text("utf-8")):
        if not command.startswith(MEASURES):
            assert run(command, folder) == shown, command
        elif find_spec("deepspeed") is not None:
            assert without_figures(run(command, folder)) == without_figures(shown), command


def test_the_readme_shows_the_demo():
    assert any(command.startswith(MAKE_DEMO) for command, _ in sessions(README.read_text("utf-8")))


@pytest.mark.parametrize("page", _pages(_PYCON.search))
def test_the_python_examples_run(page, folder):
    blocks = _PYCON.findall((REPO / page).read_text("utf-8"))
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, page, 0)
    with environment(folder), contextlib.chdir(REPO):
        results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert results.attempted > 0
    assert results.failed == 0


@_OTHER_PAGE
def test_a_check_in_ci_ends_with_its_exit_code(folder, tmp_path):
    text = (REPO / "docs" / "how-to" / "ci.md").read_text("utf-8")
    (shown,) = [block for block in _PYTHON.findall(text) if _RUNS_ALONE in block]
    script = tmp_path / "check.py"

    def exit_code(source):
        script.write_text(source)
        with environment(folder), contextlib.chdir(REPO), pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(script))
        return stopped.value.code

    assert exit_code(shown) == 0
    strict = shown.replace("> 1 / 3", "> 0")
    assert strict != shown
    assert exit_code(strict) == "exposed communication or unreadable events"


if __name__ == "__main__":
    update.main()
