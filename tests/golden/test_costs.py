"""Exact cost of commands, in calls. A change may increase a count only with a reason.

`python tests/golden/test_costs.py` rewrites costs.json; the commit explains increased counts.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("costs.json")
SMALL = "sample_traces/finetune_QL"
COMMANDS = {
    "breakdown, cold": ("breakdown", SMALL, "--no-cache"),
    "breakdown, warm": ("breakdown", SMALL),
    "advise, cold": ("advise", SMALL, "--no-cache"),
    "query timeline, cold": ("query", "timeline", SMALL, "--no-cache"),
}


def run(module, command, cache):
    """Return the stderr of a command that a module runs."""
    path = os.pathsep.join(map(str, (REPO, REPO / "tests" / "shared")))
    return subprocess.run(
        [sys.executable, "-m", module, *command],
        cwd=REPO,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(cache),
            "COLUMNS": "80",
            "PYTHONPATH": path,
            "TRACEKIT_CACHE_DIR": str(cache),
            "TMPDIR": str(cache),
        },
        capture_output=True,
        text=True,
        check=True,
    ).stderr


def cost(name, cache):
    return json.loads(run("command_cost", COMMANDS[name], cache).splitlines()[-1])


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Return the folder of a cache with the library and the store of the sample."""
    folder = tmp_path_factory.mktemp("costs")
    run("tracekit", COMMANDS["breakdown, warm"], folder)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_costs_more(name, cache):
    assert cost(name, cache) == json.loads(FILE.read_text("utf-8"))[name]


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        run("tracekit", COMMANDS["breakdown, warm"], Path(folder))
        found = {name: cost(name, Path(folder)) for name in COMMANDS}
    FILE.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
