"""The fixture `tracekit_profile` in a separate pytest: the test in the manual, and others."""

import re
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import entry_points

import pytest
from every_trace import REPO
from processes import finished

pytest.importorskip("torch")

PAGE = REPO / "docs" / "how-to" / "ci.md"

OTHERS = """
import pytest
import torch
import tracekit

MODEL = torch.nn.Linear(8, 8)

def profiled(tracekit_profile, rules, **options):
    return tracekit_profile(
        lambda: MODEL(torch.ones(2, 8)).sum().backward(), MODEL, profile_steps=2, **options,
        rules=rules,
    )

def test_fails(tracekit_profile):
    profiled(tracekit_profile, {"few": "class.gemm.kernel_count <= 0"})

def test_is_open(tracekit_profile):
    profiled(tracekit_profile, "mfu >= 0.4")

def test_is_as_it_was(tracekit_profile):
    relative = ["class.gemm.kernel_count <= +0%"]
    run = profiled(tracekit_profile, relative, against="step", baselines="kept")
    assert (run.report is None) == SAVES
    assert (run.folder / "run.json").is_file()

def test_has_a_typo(tracekit_profile):
    with pytest.raises(tracekit.UsageError, match="oops"):
        profiled(tracekit_profile, "mfu >= 0.4", inconclusive="oops")

def test_obeys_the_project(tracekit_profile):
    run = profiled(tracekit_profile, None)
    assert run.report.outcome == "passed"
"""


def run_pytest(python, folder, *options):
    """Run the tests of a folder; return the exit code, the output, and its cases by name."""
    junit = folder / "junit.xml"
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={junit}"]
    done = finished(*command, *options, cwd=folder)
    output = done.stdout + done.stderr
    assert junit.exists(), output
    cases = {case.get("name", ""): case for case in ET.parse(junit).iter("testcase")}
    return done.returncode, output, cases


@pytest.mark.nightly("starts pytest with torch")
def test_the_fixture(tmp_path):
    section = PAGE.read_text("utf-8").partition("## Check in pytest")[2]
    shown = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    (tmp_path / "test_shown.py").write_text(shown)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\n[tool.tracekit.check]\nrules = ["compute_pct <= 100"]\n'
    )
    eager = sys.executable
    (tmp_path / "test_others.py").write_text(f"SAVES = True\n{OTHERS}")
    exit_code, output, cases = run_pytest(eager, tmp_path, "--tracekit-save")
    assert exit_code == 1, output
    assert "1 failed, 4 passed, 1 skipped" in output
    failed = cases["test_fails"].find("failure")
    assert "failed: few: " in (failed.text or "")
    skipped = cases["test_is_open"].find("skipped")
    assert "mfu is unknown" in (skipped.get("message") or "")
    assert (tmp_path / "kept" / "step.baseline.json").is_file()
    (tmp_path / "test_others.py").write_text(f"SAVES = False\n{OTHERS}")
    exit_code, output, cases = run_pytest(eager, tmp_path, "-k", "as_it_was")
    assert exit_code == 0, output
    properties = cases["test_is_as_it_was"].iter("property")
    by_name = {one.get("name"): one.get("value") for one in properties}
    assert (by_name["class.gemm.kernel_count <= +0%"] or "").startswith("passed: ")


def test_pytest_finds_it_and_loads_nothing():
    found = {one.value for one in entry_points(group="pytest11") if one.name == "tracekit"}
    assert found == {"tracekit.checking.pytest_plugin"}
    code = (
        "import sys, tracekit.checking.pytest_plugin\n"
        "print([m for m in ('duckdb', 'torch', 'rich', 'click', 'msgspec') if m in sys.modules])"
    )
    assert finished(sys.executable, "-c", code).stdout.strip() == "[]"


def test_pytest_does_not_warn_about_the_package(tmp_path):
    """A program that is recorded has imported it before pytest comes; warnings may be errors."""
    (tmp_path / "test_it.py").write_text("def test_a():\n    assert 1\n")
    # As pytest does for every package whose wheel brings a plugin.
    (tmp_path / "conftest.py").write_text(
        "import pytest\npytest.register_assert_rewrite('tracekit')"
    )
    program = "import sys, tracekit, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    options = ("-q", "-W", "error", "-p", "no:cacheprovider")
    done = finished(sys.executable, "-c", program, *options, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "warning" not in done.stdout
