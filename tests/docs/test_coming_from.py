"""docs/how-to/coming-from.md: all commands and analyses on the page exist and run."""

import json
import re
import shlex
import shutil

import pytest
from click.testing import CliRunner
from every_trace import REPO
from traces_by_hand import call

from tracekit.cli._main import group

pytestmark = pytest.mark.nightly("runs every command of a page")

PAGE = REPO / "docs" / "how-to" / "coming-from.md"
SMALL = REPO / "docs" / "samples" / "made_up_step.json"
SERVED = REPO / "sample_traces" / "serve_transformers"
COMMANDS = sorted(
    {
        command
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith("| ")
        for command in re.findall(r"`tracekit ([^`]+)`", line)
    }
)
CAPTURE = [
    call(at, at + 1, name=f"hip{name}")
    for at, name in enumerate(("StreamBeginCapture", "LaunchKernel", "StreamEndCapture"))
]
INTERACTIVE = ("browse", "view")
SHAPED = ("reproduce", "serving_steps", "serving_window")
"""What asks for more than the smallest sample has."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Read the smallest sample, and one of serving, once."""
    folder = tmp_path_factory.mktemp("stores")
    made = {}
    for path in (SMALL, SERVED):
        made[path.stem] = str(folder / f"{path.stem}.duckdb")
        read = CliRunner().invoke(group, ["ingest", str(path), "-o", made[path.stem]])
        assert read.exit_code == 0, read.output
    return made


def test_there_are_commands():
    assert len(COMMANDS) > 50


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs(command, stores, tmp_path):
    words = shlex.split(command)
    store = stores[SERVED.stem if {*SHAPED} & {*words} else SMALL.stem]
    named = {"FILE": str(tmp_path / "out"), "TRACE": store, "RANKS": store}
    if {"BASE", "NEW"} & {*words}:
        named |= {"BASE": store, "NEW": shutil.copy(store, tmp_path)}
    if "CAPTURE" in words:  # which is read together with the trace
        capture = tmp_path / "capture.json"
        capture.write_text(json.dumps({"traceEvents": CAPTURE}), "utf-8")
        named |= {"TRACE": str(SMALL), "CAPTURE": str(capture)}
    words = [named.get(word, word) for word in words]
    if words[0] in INTERACTIVE:
        words = [words[0], "--help"]
    elif len(words) == 1 or command == "check baseline":
        words = [*words, "--help"]
    ran = CliRunner().invoke(group, words)
    assert ran.exit_code == 0, ran.output
