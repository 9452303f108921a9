"""Runs the commands of docs/write-your-own-analysis.md in a temporary folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .places import OWN_PAGE, REPO
from .sessions import WIDTH

TRACE = Path("tests/traces/cpu_llama_lora/rank0.json.gz")
"""Input trace of the commands on the page."""

_FILE = re.compile(r"`my-queries/(\w+)\.sql`:\n\n```sql\n(.*?)```", re.DOTALL)
_CONSOLE = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)


def make_files(folder: Path) -> None:
    """Write the files of the page, and the trace that its commands read, into a folder."""
    queries = folder / "my-queries"
    queries.mkdir(parents=True)
    for name, sql in _FILE.findall(OWN_PAGE.read_text("utf-8")):
        (queries / f"{name}.sql").write_text(sql, "utf-8")
    (folder / TRACE).parent.mkdir(parents=True)
    shutil.copy(REPO / TRACE, folder / TRACE)


def own_page(folder: Path) -> str:
    """Return the page with the current output of each command.

    Args:
        folder: folder with the files of the page.
    """

    def with_output(block: re.Match[str]) -> str:
        commands = [line for line in block.group().splitlines() if line.startswith("$ ")]
        return "".join(f"{line}\n{_run(line[2:], folder)}" for line in commands)

    return _CONSOLE.sub(with_output, OWN_PAGE.read_text("utf-8"))


def _run(command: str, folder: Path) -> str:
    """Run a command in a user's environment, and return its output."""
    environment = {key: text for key, text in os.environ.items() if not key.startswith("TRACEKIT_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": str(WIDTH),
        "TRACEKIT_CACHE_DIR": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout + done.stderr
