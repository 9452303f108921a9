"""The README tells only what works today: every command in it is run, every reference is current.

`python tests/test_readme.py` writes the reference sections and the outputs anew; look at the
difference before you commit it.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.spec import Spec
from tracekit.event_description import EVENT_COLUMNS, MEMORY_COLUMNS
from tracekit.schema import SESSION_TABLES, TABLES

REPO = Path(__file__).resolve().parent.parent
README = REPO / "README.md"
REFERENCE = REPO / "queries" / "README.md"

_CONSOLE = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_PYCON = re.compile(r"(?<=```pycon\n).*?(?=```)", re.DOTALL)
_REFERENCE = re.compile(r"(<!-- reference: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
# The one command whose output is not run as written: it would build an environment in the middle
# of a test. What it runs is read from the Makefile instead; .ci/run runs it for real.
_MAKE_DEMO = "make demo"
# Commands that measure this machine: what they print is compared without its figures and their
# units of time, which are seconds where the machine is busy.
_MEASURES = "tracekit collect "
_TABLES = (*TABLES, *SESSION_TABLES)
_FIGURE = re.compile(r"[+-]?\d[\d,.]*(?: (?:ns|µs|ms|s)\b)?")


def _sessions(text: str) -> list[tuple[str, str]]:
    """Return every command of the console blocks with the output that is shown below it."""
    found: list[tuple[str, str]] = []
    for block in _CONSOLE.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            while command.endswith("\\"):
                line, _, output = output.partition("\n")
                command = command[:-1] + line.strip()
            found.append((command, output))
    return found


def _run(command: str, folder: Path) -> str:
    if command == _MAKE_DEMO:
        planned = subprocess.run(
            ["make", "--silent", "--dry-run", "demo"],
            cwd=REPO,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        command = planned.strip().splitlines()[-1].replace(".venv/bin/", "")
    # Run folders go where the test's other files are.
    command = command.replace("runs/", f"{folder}/runs/")
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("TRACEKIT_")
    }
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "TRACEKIT_CACHE_DIR": str(folder / "cache"),
        "OUT": str(folder),
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=REPO,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    shown = (
        done.stderr + done.stdout if command.startswith(_MEASURES) else done.stdout + done.stderr
    )
    return shown.replace(f"{folder}/runs/", "runs/")


def _without_figures(text: str) -> str:
    """Return a text with 0 for every number, and without the unit that its size decides."""
    return re.sub(r"\b0 (?:ns|µs|ms|s)\b", "0 s", _FIGURE.sub("0", text))


def _relation(name: str, about: str, columns: list[tuple[str, str, str]]) -> str:
    lines = [f"**`{name}`**: {about}", "", "| column | type | meaning |", "| --- | --- | --- |"]
    lines += [
        f"| `{column}` | {kind} | {meaning.replace('|', chr(92) + '|')} |"
        for column, kind, meaning in columns
    ]
    return "\n".join(lines) + "\n"


def _of(spec: Spec) -> str:
    columns = [(column.name, column.type, column.meaning) for column in spec.columns]
    about = " ".join(filter(None, [spec.question, spec.description]))
    text = _relation(spec.name, about, columns)
    if spec.params:
        params = "; ".join(
            f"`--{param.name.replace('_', '-')}` {param.meaning}"
            + ("" if param.default in (None, "NULL") else f" (default {param.default})")
            for param in spec.params
        )
        text += f"\nOptions: {params}\n"
    for invariant in spec.invariants:
        text += f"\nAlways: `{invariant}`\n"
    return text


def _event_members() -> str:
    """Return what of an event has a column, from the description that the readers work by."""
    lines = [
        "| in the event | column | type | meaning | written by |",
        "| --- | --- | --- | --- | --- |",
    ]
    tables = [("record", column) for column in EVENT_COLUMNS]
    tables += [("memory", column) for column in MEMORY_COLUMNS]
    for table, column in tables:
        if column.source == "reader":
            continue
        place = "args." if column.source == "argument" else ""
        keys = ", else ".join(f"`{place}{key}`" for key in column.keys)
        none = "" if column.none is None else f"; {column.none} is NULL"
        lines.append(
            f"| {keys} | `{table}.{column.name}` | {column.type} | {column.meaning}{none} "
            f"| {column.since} |"
        )
    return "\n".join(lines) + "\n"


def _reference(kind: str) -> str:
    catalog = load_catalog()
    if kind == "summary":
        rows = [(t.name, t.row, [c.name for c in t.columns]) for t in _TABLES]
        rows += [
            (name, spec.question, list(spec.column_names))
            for name, spec in sorted({**catalog.tables, **catalog.views}.items())
        ]
        lines = ["| table or view | a row is, or it answers | columns |", "| --- | --- | --- |"]
        lines += [f"| `{name}` | {about} | {', '.join(columns)} |" for name, about, columns in rows]
        return "\n".join(lines) + "\n"
    if kind == "arguments":
        return _event_members()
    if kind == "tables":
        parts = [
            _relation(t.name, t.row, [(c.name, c.type, c.meaning) for c in t.columns])
            for t in _TABLES
        ]
    elif kind == "derived":
        parts = [_of(spec) for _, spec in sorted({**catalog.tables, **catalog.views}.items())]
    else:
        parts = [_of(spec) for spec in catalog.analyses.values()]
    return "\n".join(parts)


def _with_references(text: str) -> str:
    return _REFERENCE.sub(lambda found: found[1] + _reference(found[2]) + found[3], text)


@pytest.mark.parametrize(
    ("page", "kinds"),
    [(README, {"summary"}), (REFERENCE, {"arguments", "tables", "derived", "analyses"})],
)
def test_the_reference_is_that_of_the_code(page: Path, kinds: set[str]) -> None:
    text = page.read_text("utf-8")
    assert {found[1] for found in _REFERENCE.findall(text)} == kinds
    assert _with_references(text) == text, "run: python tests/test_readme.py"


def test_every_command_prints_what_the_readme_shows(tmp_path: Path) -> None:
    sessions = _sessions(README.read_text("utf-8"))
    assert any(command == _MAKE_DEMO for command, _ in sessions)
    for command, shown in sessions:
        if not command.startswith(_MEASURES):
            assert _run(command, tmp_path) == shown, command
        elif find_spec("deepspeed") is not None:
            assert _without_figures(_run(command, tmp_path)) == _without_figures(shown), command


def test_the_python_examples_run(tmp_path: Path) -> None:
    blocks = _PYCON.findall(README.read_text("utf-8"))
    assert blocks
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "README", str(README), 0)
    before = Path.cwd()
    os.environ["TRACEKIT_CACHE_DIR"] = str(tmp_path)
    os.chdir(REPO)
    try:
        results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    finally:
        os.chdir(before)
        del os.environ["TRACEKIT_CACHE_DIR"]
    assert results.attempted > 0
    assert results.failed == 0


def _rewrite() -> None:
    REFERENCE.write_text(_with_references(REFERENCE.read_text("utf-8")), "utf-8")
    text = _with_references(README.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        for command, shown in _sessions(text):
            now = _run(command, Path(folder))
            text = text.replace(f"$ {command}\n{shown}```", f"$ {command}\n{now}```")
            text = text.replace(f"$ {command}\n{shown}$", f"$ {command}\n{now}$")
    README.write_text(text, "utf-8")


if __name__ == "__main__":
    _rewrite()
