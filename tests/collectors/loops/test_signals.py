"""Signals go through to the program, once, and it has the time that it needs."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

import pytest

EARLY, LATE = "step 3 ", "step 20 "


def ended(loops: Any, name: str, what: str, line: str) -> Any:
    program = loops.program("signalled", name, what, python=loops.python("eager"))
    process = loops.start([*loops.collect(), *program])
    process.wait_for(line)
    process.popen.send_signal(getattr(signal, name))
    return process.end()


def own_lines(result: Any) -> list[str]:
    return [line for line in result.stdout.splitlines() if not line.startswith("step ")]


@dataclass(frozen=True)
class Sent:
    """A signal, what the program does with it, when it comes and the exit code that follows."""

    name: str
    what: str
    line: str
    exit_code: int

    def begin(self, loops: Any) -> Any:
        given = (self.name, self.what, self.line)
        return loops.job(given, lambda: ended(loops, *given))


SENT = [
    Sent("SIGTERM", "0", EARLY, 0),
    Sent("SIGTERM", "default", LATE, 143),
    Sent("SIGINT", "7", EARLY, 7),
    Sent("SIGINT", "default", LATE, 130),
    Sent("SIGHUP", "5", LATE, 5),
    Sent("SIGUSR1", "go-on", LATE, 0),
    Sent("SIGUSR2", "default", EARLY, 140),
]


@pytest.mark.parametrize("case", SENT, ids=lambda sent: f"{sent.name} {sent.what}")
def test_a_signal_to_tracekit(case: Sent, loops: Any) -> None:
    result = case.begin(loops).result()
    assert result.exit_code == case.exit_code, result.stderr
    if case.what.isdigit():
        assert own_lines(result) == [f"{case.name} number 1", "saved after 1 signals"]
        assert result.files == ["work/checkpoint.pt"]
    elif case.what == "go-on":
        assert own_lines(result) == [f"{case.name} number 1", "went on after 1 signals"]
        assert result.files == []
    else:
        assert own_lines(result) == []
        assert result.files == []
    assert result.left == []
    if case.line == LATE or case.exit_code:
        made = result.run.manifest
        assert made["exit_code"] == case.exit_code
        assert made["outcome"] == ("failed" if case.exit_code else "ok")
        assert result.run.traces == (["rank0.json.gz"] if case.line == LATE else [])


# Makes a terminal that is its stdin the one that signals come from, and becomes another program.
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


def on_a_terminal(loops: Any, command: list[str], wait_for: str, keys: bytes) -> tuple[str, Any]:
    """Run a command on a terminal of its own, and press keys once it has written something.

    Returns:
        What the terminal showed, and the outcome.
    """
    ours, theirs = pty.openpty()
    process = loops.start(
        [sys.executable, "-c", TAKE_TERMINAL, *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = ""
    is_pressed = False
    deadline = time.monotonic() + 60
    # On Linux reading fails where the other side is closed.
    with contextlib.suppress(OSError):
        while True:
            if time.monotonic() > deadline:
                process.popen.kill()  # stopped, perhaps, as it read from the terminal
                break
            if select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 65536).decode()
            if not is_pressed and wait_for in shown:
                os.write(ours, keys)
                is_pressed = True
    result = process.end()
    os.close(ours)
    assert is_pressed, shown
    return shown, result


def test_ctrl_c_reaches_the_program_once(loops: Any) -> None:
    command = [*loops.collect(), *loops.program("signalled", "SIGINT", "7")]
    shown, result = on_a_terminal(loops, command, EARLY, b"\x03")
    assert result.exit_code == 7, shown
    assert shown.count("SIGINT number") == 1
    assert "saved after 1 signals" in shown
    assert result.left == []


def test_the_program_can_read_from_the_terminal(loops: Any) -> None:
    """It cannot in a process group of its own: it would be stopped as soon as it tries."""
    program = [sys.executable, "-c", "print('answer', input('question '))"]
    shown, result = on_a_terminal(loops, [*loops.collect(), *program], "question", b"forty-two\n")
    assert "answer forty-two" in shown
    assert result.left == []
