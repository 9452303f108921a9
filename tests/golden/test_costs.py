"""Exact cost of commands, in calls. A change may increase a count only with a reason.

`python tests/golden/test_costs.py` rewrites costs.json; the commit explains increased counts.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

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
    """Run a command with a module and return its stderr."""
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


def costs(cache):
    """Return the costs of all commands; the first run creates the library and the cached store."""
    run("tracekit", COMMANDS["breakdown, warm"], cache)
    counted = {name: run("command_cost", command, cache) for name, command in COMMANDS.items()}
    return {name: json.loads(text.splitlines()[-1]) for name, text in counted.items()}


def test_no_command_costs_more(tmp_path):
    assert costs(tmp_path) == json.loads(FILE.read_text("utf-8"))


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        FILE.write_text(json.dumps(costs(Path(folder)), indent=2) + "\n", "utf-8")
