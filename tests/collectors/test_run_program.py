"""A program runs as without us: signals reach it once, files and groups are its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = """
import os, signal, sys
if os.environ.get("NO_WAIT"):
    del signal.sigtimedwait
from tracekit.collectors.process.program import run_program
sys.exit(run_program(sys.argv[1:], os.environ, lambda: None, lambda number: False))
"""
# Notes each signal, and leaves with its number once it is told to by an empty line.
PROGRAM = """
import os, signal, sys
def note(number, _):
    print("got", number, flush=True)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, note)
print("ready", os.getpgrp(), flush=True)
sys.stdin.readline()
sys.exit(7)
"""


def start(program: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUNNER, sys.executable, "-c", program]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,  # type: ignore[call-overload]
    )
    assert isinstance(process, subprocess.Popen)
    return process


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("is_on_linux", [True, False], ids=["", "without sigtimedwait"])
@pytest.mark.parametrize("to_group", [False, True], ids=["to us", "to the group"])
def test_a_signal_reaches_the_program_once(to_group: bool, is_on_linux: bool) -> None:
    process = start(PROGRAM, env={**os.environ, "NO_WAIT": "" if is_on_linux else "1"})
    assert read_line(process) == f"ready {process.pid}", "it is in our group"
    names = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGTERM")
    for number in (signal.Signals[name] for name in names):
        if to_group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert read_line(process) == f"got {number.value}"
    stdout, _ = process.communicate("\n", timeout=60)
    assert stdout == "", "each came once"
    assert process.returncode == 7


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV"])
def test_a_program_that_a_signal_ends(name: str) -> None:
    program = f"import os, signal; os.kill(os.getpid(), signal.{name})"
    process = start(program)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.Signals[name]


def test_what_the_program_leaves_running_is_left() -> None:
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
    )
    process = start(program)
    child = int(read_line(process))
    assert process.wait(60) == 0
    os.kill(child, 0)  # it is there
    process.communicate()  # closes its stdin, which ends it


def test_open_files_and_the_mask_are_the_programs(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        number = os.dup(file.fileno())
        os.set_inheritable(number, True)
        program = (
            "import os, signal\n"
            f"os.write({number}, b'written')\n"
            "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
        )
        process = start(program, close_fds=False)
        os.close(number)
        assert process.communicate(timeout=60) == ("set()\n", None)
        assert process.returncode == 0
    assert (tmp_path / "file").read_text() == "written"
