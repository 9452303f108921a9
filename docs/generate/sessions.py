"""Runs the commands that pages show, and updates their outputs.

A `console` block contains commands after `$ `, each followed by its output. tracekit commands run
in this process, which is ten times as fast as one process per command. Other commands, and tracekit
commands that start processes, run in bash.
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
"""Not run as written, because it would build a virtual environment during a test. The command that
it runs is read from the Makefile instead; .ci/run runs the original."""

MEASURES = "tracekit collect "
"""Commands that measure this machine. Their outputs are compared without numbers and time units,
because times on a busy machine can be seconds instead of milliseconds."""

WIDTH = 100

_WRITTEN = ("runs/", "build/")
"""Folders that commands on pages write to."""

_CONSOLE = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_FIGURE = re.compile(r"[+-]?\d[\d,.]*(?: (?:ns|µs|ms|s)\b)?")
_STARTS_PROCESSES = re.compile(r"tracekit (?:collect|bench|sweep)\b(?! --help)")
_ERROR = "error: "
_SHELL_WORDS = {"|", "||", "&", "&&", ";", ">", "<"}


class FailsNowError(Exception):
    """A command fails, but the page shows its success."""


def sessions(text: str) -> list[tuple[str, str]]:
    """Return every command in console blocks with its output."""
    commands: list[tuple[str, str]] = []
    for block in _CONSOLE.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            while command.endswith("\\"):
                line, _, output = output.partition("\n")
                command = command[:-1] + line.strip()
            commands.append((command, output))
    return commands


def run(command: str, folder: Path) -> str:
    """Run a command in the root of the repository and return its output.

    Args:
        command: the command as shown on a page.
        folder: folder for the cache, and for files that commands write to `runs/` and `build/`.
    """
    if command.startswith(MAKE_DEMO):
        command = command.replace(MAKE_DEMO, _planned(MAKE_DEMO), 1)
    # Redirect output files to the temporary folder, so that each run starts without them.
    for path in _WRITTEN:
        command = command.replace(path, f"{folder}/{path}")
    words, rest = _split_pipe(command)
    if words[:1] != ["tracekit"] or _STARTS_PROCESSES.match(command):
        shown = _run_by_bash(command, folder)
    else:
        shown = run_here(words[1:], folder)
        shown = _run_by_bash(rest, folder, shown) if rest else shown
    for path in _WRITTEN:
        shown = shown.replace(f"{folder}/{path}", path)
    return shown.replace(f"{REPO}/", "")


def run_here(args: list[str], folder: Path) -> str:
    """Run tracekit in this process and return its stdout followed by its stderr."""
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
    """Replace every number by 0, and remove time units and notes on noise."""
    text = re.sub(r"(?m)^note: steps took .* before the profile and .*\n", "", text)
    return re.sub(r"\b0 (?:ns|µs|ms|s)\b", "0 s", _FIGURE.sub("0", text))


def with_outputs(text: str, folder: Path) -> str:
    """Return a page with the current outputs of its commands.

    Raises:
        FailsNowError: a command fails whose output on the page is not an error.
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


def _split_pipe(command: str) -> tuple[list[str], str]:
    """Return the words before the first pipe, and the text after it.

    Return no words if the part before the pipe needs a shell.
    """
    words = shlex.split(command)
    if "|" in words:
        words = words[: words.index("|")]
    if _SHELL_WORDS.intersection(words) or any("$" in word or "`" in word for word in words):
        return [], ""
    rest = command.split(" | ", maxsplit=1)[1] if len(words) < len(shlex.split(command)) else ""
    return words, rest


def _planned(command: str) -> str:
    """Return the last command that make would run, with `tracekit` without its path."""
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
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("TRACEKIT_")}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=REPO,
        env=inherited | {"PATH": path} | _variables(folder),
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    measures = command.startswith(MEASURES)
    return done.stderr + done.stdout if measures else done.stdout + done.stderr


@contextlib.contextmanager
def opened_once() -> Iterator[None]:
    """Share open traces between commands, because pages use a few samples hundreds of times."""
    from tracekit.cli import _open

    open_traces = _open.open_traces
    shared: dict[str, Trace] = {}

    @contextlib.contextmanager
    def open_once(traces: Sequence[str], *args: Any, **options: Any) -> Iterator[Trace]:
        key = repr((traces, args, options))
        # A breakdown closes its trace before the end of its output.
        if key not in shared or "for_breakdown" in options:
            shared[key] = stack.enter_context(open_traces(traces, *args, **options))
        yield shared[key]

    with contextlib.ExitStack() as stack, patch.object(_open, "open_traces", open_once):
        yield


@contextlib.contextmanager
def environment(folder: Path) -> Iterator[None]:
    """Set the terminal width and cache folder of the manual's commands in this process.

    Args:
        folder: parent of the cache folder.
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
