"""The page «write your own analysis»: its files are made in a folder, its commands run there."""

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
"""What the commands of the page read."""

_FILE = re.compile(r"`my-queries/(\w+)\.sql`:\n\n```sql\n(.*?)```", re.DOTALL)
_CONSOLE = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)


def make_files(folder: Path) -> None:
    """Write the files of the page into a folder, and what its commands read."""
    queries = folder / "my-queries"
    queries.mkdir(parents=True)
    for name, sql in _FILE.findall(OWN_PAGE.read_text("utf-8")):
        (queries / f"{name}.sql").write_text(sql, "utf-8")
    (folder / TRACE).parent.mkdir(parents=True)
    shutil.copy(REPO / TRACE, folder / TRACE)


def own_page(folder: Path) -> str:
    """Return the page with what its commands print now below each.

    Args:
        folder: where its files are.
    """

    def answered(block: re.Match[str]) -> str:
        commands = [line for line in block.group().splitlines() if line.startswith("$ ")]
        return "".join(f"{line}\n{_run(line[2:], folder)}" for line in commands)

    return _CONSOLE.sub(answered, OWN_PAGE.read_text("utf-8"))


def _run(command: str, folder: Path) -> str:
    """Run a command as a reader would, and return what it prints."""
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
