"""The commands that a page shows, and what they print now.

A block of the language `console` holds commands behind `$ ` with their output below them. Commands
of tracekit are run in this process, one after the other, which takes a tenth of the time that a
process for each would; all others, and those that start processes themselves, are run by bash.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from .places import REPO

if TYPE_CHECKING:
    from tracekit.trace import Trace

MAKE_DEMO = "make demo"
"""The one command that is not run as written: it would build an environment in the middle of a
test. What it runs is read from the Makefile instead; .ci/run runs it for real."""

MEASURES = "tracekit collect "
"""Commands that measure this machine: what they print is compared without its figures and their
units of time, which are seconds where the machine is busy."""

WIDTH = 100

_WRITTEN = ("runs/", "build/")
"""Where commands of pages write."""

_CONSOLE = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_FIGURE = re.compile(r"[+-]?\d[\d,.]*(?: (?:ns|µs|ms|s)\b)?")
_STARTS_PROCESSES = re.compile(r"tracekit (?:collect|bench|sweep)\b(?! --help)")
_ERROR = "error: "
_SHELL_WORDS = {"|", "||", "&", "&&", ";", ">", "<"}


class FailsNowError(Exception):
    """A command of a page fails, and the page does not show it failing."""


def sessions(text: str) -> list[tuple[str, str]]:
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


def run(command: str, folder: Path) -> str:
    """Run a command in the root of the repository and return what it prints.

    Args:
        command: as a page shows it.
        folder: where the cache is, and what commands write below `runs/` and `build/`.
    """
    if command.startswith(MAKE_DEMO):
        command = command.replace(MAKE_DEMO, _planned(MAKE_DEMO), 1)
    # What is written goes where the other files are, and is not there the next time.
    for place in _WRITTEN:
        command = command.replace(place, f"{folder}/{place}")
    words, behind = _first_of_pipe(command)
    if words[:1] != ["tracekit"] or _STARTS_PROCESSES.match(command):
        shown = _run_by_bash(command, folder)
    else:
        shown = run_here(words[1:], folder)
        shown = _run_by_bash(behind, folder, shown) if behind else shown
    for place in _WRITTEN:
        shown = shown.replace(f"{folder}/{place}", place)
    return shown.replace(f"{REPO}/", "")


def run_here(args: list[str], folder: Path) -> str:
    """Run tracekit in this process and return its stdout, then its stderr."""
    from tracekit.cli._main import main

    out, err = io.StringIO(), io.StringIO()
    with (
        environment(folder),
        contextlib.chdir(REPO),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        main(args)
    return out.getvalue() + err.getvalue()


def without_figures(text: str) -> str:
    """Return a text with 0 for every number, without units of time, and without notes on noise."""
    steady = re.sub(r"(?m)^note: steps took .* before the profile and .*\n", "", text)
    return re.sub(r"\b0 (?:ns|µs|ms|s)\b", "0 s", _FIGURE.sub("0", steady))


def with_outputs(text: str, folder: Path) -> str:
    """Return a page with what its commands print now.

    Raises:
        FailsNowError: a command fails that did not: an error is not written into the page.
    """
    for command, shown in sessions(text):
        now = run(command, folder)
        if now.startswith(_ERROR) and not shown.startswith(_ERROR):
            raise FailsNowError(f"$ {command}\n{now}")
        if command.startswith(MEASURES) and without_figures(now) == without_figures(shown):
            continue
        for end in ("```", "$"):
            text = text.replace(f"$ {command}\n{shown}{end}", f"$ {command}\n{now}{end}")
    return text


def _first_of_pipe(command: str) -> tuple[list[str], str]:
    """Return the words of a command up to the first pipe, and what stands behind it.

    No word if a shell is needed for what stands before it.
    """
    words = shlex.split(command)
    if "|" in words:
        words = words[: words.index("|")]
    if _SHELL_WORDS.intersection(words) or any("$" in word or "`" in word for word in words):
        return [], ""
    behind = command.split(" | ", maxsplit=1)[1] if len(words) < len(shlex.split(command)) else ""
    return words, behind


def _planned(command: str) -> str:
    """Return the last command that make would run, as it would be with tracekit on the path."""
    words = command.split()
    done = subprocess.run(
        [words[0], "--silent", "--dry-run", *words[1:]],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip().splitlines()[-1].replace(".venv/bin/", "")


def _variables(folder: Path) -> dict[str, str]:
    return {"COLUMNS": str(WIDTH), "TRACEKIT_CACHE_DIR": str(folder / "cache"), "OUT": str(folder)}


def _run_by_bash(command: str, folder: Path, stdin: str = "") -> str:
    installed = str(Path(sys.executable).parent)
    path = os.pathsep.join([installed, os.environ["PATH"]])
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TRACEKIT_")}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=REPO,
        env=kept | {"PATH": path} | _variables(folder),
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    measures = command.startswith(MEASURES)
    return done.stderr + done.stdout if measures else done.stdout + done.stderr


@contextlib.contextmanager
def opened_once() -> Iterator[None]:
    """Let commands that open the same traces in the same way share them, and what derives of them.

    Pages show the same few samples some hundred times.
    """
    from tracekit.cli import _open

    open_traces = _open.open_traces
    shared: dict[str, Trace] = {}

    @contextlib.contextmanager
    def open_once(traces: Sequence[str], *given: Any, **options: Any) -> Iterator[Trace]:
        key = repr((traces, given, options))
        # What only breaks down closes its trace before it has printed all.
        if key not in shared or "for_breakdown" in options:
            shared[key] = stack.enter_context(open_traces(traces, *given, **options))
        yield shared[key]

    with contextlib.ExitStack() as stack, patch.object(_open, "open_traces", open_once):
        yield


@contextlib.contextmanager
def environment(folder: Path) -> Iterator[None]:
    """Give what runs in this process the width and the cache of the manual's commands.

    Args:
        folder: where the cache is.
    """
    before = dict(os.environ)
    for name in [name for name in before if name.startswith("TRACEKIT_")]:
        del os.environ[name]
    os.environ.update(_variables(folder))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
