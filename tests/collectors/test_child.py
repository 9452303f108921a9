"""Processes that we start: ended with all that they have started, and told of in words."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import running, wait_for

from tracekit.collectors.process import child, sessions
from tracekit.collectors.process.child import Child, end
from tracekit.collectors.process.ending import (
    describe_exit_code,
    describe_shell_code,
    shell_code,
    signal_name,
)

# Starts two processes, one of them in a group of its own, writes down who they are, and waits.
PARENT = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", sys.argv[2] + "; print(flush=True); import time; time.sleep(60)"]
pipes = {"stdout": subprocess.PIPE}
others = [subprocess.Popen(sleep, process_group=group, **pipes) for group in (None, 0)]
for other in others:
    other.stdout.readline()
pids = " ".join(map(str, [os.getpid(), *(other.pid for other in others)]))
with open(sys.argv[1] + ".partial", "w") as file:
    file.write(pids)
os.rename(sys.argv[1] + ".partial", sys.argv[1])
time.sleep(float(sys.argv[3]))
"""
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="looks for processes in /proc"
)


def family(folder: Path, script: str = "pass", wait_s: float = 60) -> tuple[Child, list[int]]:
    """Start a process that starts two, and return it with the numbers of all three."""
    pids = folder / "pids"
    command = [sys.executable, "-c", PARENT, str(pids), script, str(wait_s)]
    parent = Child(command, subprocess.DEVNULL)
    while not pids.exists():
        assert parent.exit_code is None
        time.sleep(0.01)
    return parent, [int(word) for word in pids.read_text().split()]


def test_a_child_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    parent, pids = family(tmp_path)
    assert parent.exit_description is None
    assert set(sessions.session_members([parent.pid])) == set(pids)
    end([parent], 30)
    assert running(pids) == []
    assert (parent.wait(), parent.exit_description) == (-signal.SIGTERM, "signal SIGTERM")


def test_what_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    parent, pids = family(tmp_path, DEAF)
    end([parent], 0.2)
    assert running(pids) == []


def test_what_a_child_left_running_is_ended(tmp_path: Path) -> None:
    parent, pids = family(tmp_path, wait_s=0)
    assert parent.wait() == 0
    assert running(pids) == pids[1:]
    end([parent], 0)
    assert running(pids) == []


def test_a_second_interrupt_kills_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, pids = family(tmp_path, DEAF)
    looks: list[list[int]] = []

    def look(leaders: list[int]) -> list[int]:
        looks.append(session_members(leaders))
        if len(looks) == 2:  # they have been asked, and are waited for
            raise KeyboardInterrupt
        return looks[-1]

    session_members = sessions.session_members
    monkeypatch.setattr(sessions, "session_members", look)
    with pytest.raises(KeyboardInterrupt):
        end([parent], 3600)
    assert set(looks[0]) == set(pids)
    assert running(pids) == []


def test_a_guard_ends_what_this_process_cannot(tmp_path: Path) -> None:
    # A process of ours that is killed, with a child that knows nothing of it.
    script = (
        "import os, signal, subprocess, sys\n"
        "from tracekit.collectors.process.child import Child\n"
        "child = Child([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    pid = int(done.stdout)
    wait_for(lambda: not running([pid]))


def test_without_proc_the_group_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, pids = family(tmp_path)
    monkeypatch.setattr(sessions, "_PROC", tmp_path / "none")
    assert sessions.session_members([parent.pid]) == [-parent.pid]
    sessions.end_sessions([parent.pid], 30, 5, lambda: parent.exit_code)
    # The third has a group of its own.
    assert running(pids) == pids[2:]
    assert sessions.session_members([parent.pid]) == []
    end([parent], 0)
    # Its guard looks into the real one.
    assert running(pids) == []


def test_a_name_with_brackets_is_read(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("7 (a) b (c) S 1 2 3")
    assert sessions.read_stat(tmp_path / "stat") == ("a) b (c", ["S", "1", "2", "3"])
    assert sessions.read_stat(tmp_path / "none") is None


def test_endings_in_words() -> None:
    assert [describe_exit_code(code) for code in (0, 3, -9, -11)] == [
        *("exit code 0", "exit code 3", "signal SIGKILL", "signal SIGSEGV")
    ]
    # A real-time signal between the first and the last has no name.
    assert signal_name(signal.SIGRTMIN + 1) == str(signal.SIGRTMIN + 1)
    assert [shell_code(code) for code in (0, 3, -9)] == [0, 3, 137]
    assert [describe_shell_code(code) for code in (1, 137, 128, 255)] == [
        *("exit code 1", "signal SIGKILL", "exit code 128", "exit code 255")
    ]
    assert (sys.executable, "-P") == child.OWN_PYTHON
