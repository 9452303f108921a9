"""The page «write your own analysis»: its files are made, its commands run, its outputs compared.

`python tests/test_own_analysis_page.py` writes the outputs anew; look at the difference before you
commit it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tracekit

REPO = Path(__file__).resolve().parent.parent
PAGE = REPO / "docs" / "write-your-own-analysis.md"
TRACE = Path("tests/traces/cpu_llama_lora/rank0.json.gz")

_FILE = re.compile(r"`my-queries/(\w+)\.sql`:\n\n```sql\n(.*?)```", re.DOTALL)
_CONSOLE = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)


def make_files(text: str, folder: Path) -> None:
    """Write the files of the page, and what its commands read."""
    queries = folder / "my-queries"
    queries.mkdir()
    for name, sql in _FILE.findall(text):
        (queries / f"{name}.sql").write_text(sql, "utf-8")
    (folder / TRACE).parent.mkdir(parents=True)
    shutil.copy(REPO / TRACE, folder / TRACE)


def run(command: str, folder: Path) -> str:
    """Run a command as a reader would, and return what it prints."""
    environment = {key: text for key, text in os.environ.items() if not key.startswith("TRACEKIT_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
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


def with_outputs(text: str, folder: Path) -> str:
    """Return the page with what its commands print below each."""

    def answered(block: re.Match[str]) -> str:
        commands = [line for line in block.group().splitlines() if line.startswith("$ ")]
        return "".join(f"{line}\n{run(line[2:], folder)}" for line in commands)

    return _CONSOLE.sub(answered, text)


def test_every_command_of_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    make_files(text, tmp_path)
    assert with_outputs(text, tmp_path) == text, "run: python tests/test_own_analysis_page.py"


def test_its_analysis_is_right(tmp_path: Path, sample_trace: Path) -> None:
    """The same figures from the events themselves."""
    make_files(PAGE.read_text("utf-8"), tmp_path)
    with tracekit.open(sample_trace, cache=False, queries=tmp_path / "my-queries") as trace:
        got = trace.query("slow_ops", limit=0).to_dicts()
        right = trace.sql(
            "SELECT name, count(*), sum(dur_ns)::BIGINT FROM event "
            "WHERE category = 'cpu_op' GROUP BY name ORDER BY 3 DESC, 1"
        ).rows
    assert [(row["op"], row["op_count"], row["total_ns"]) for row in got] == right
    assert abs(sum(row["op_pct"] for row in got) - 100) < 1e-6


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        page = PAGE.read_text("utf-8")
        make_files(page, Path(made))
        PAGE.write_text(with_outputs(page, Path(made)), "utf-8")
