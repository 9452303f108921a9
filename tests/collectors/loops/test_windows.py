"""More windows of profiled steps, and which ranks leave a trace, by real command lines."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tracekit

STEPS = ("--warmup", "1", "--steps", "2", "--profile-steps", "2")


def step_numbers(run: Path) -> list[int]:
    """Return the steps that tracekit sees in a run folder."""
    with tracekit.open(run, cache=False) as trace:
        return sorted(set(trace.query("steps").column("step")))


def windows_of(run: Path) -> list[str]:
    return sorted(path.name for path in run.glob("step-*"))


def test_windows_every_so_many_steps(loops: Any) -> None:
    command = [
        *loops.collect(*STEPS, "--every", "4", "--windows", "3"),
        *loops.program("plain", python=loops.python("eager")),
    ]
    result = loops.start(command, env={"LOOP_STEPS": "30"}).end()
    assert result.exit_code == 0, result.stderr
    run = result.run.path
    # Four steps after the last one that was kept comes one that warms the profiler up.
    assert windows_of(run) == ["step-13", "step-20"]
    assert step_numbers(run) == [6, 7]
    assert step_numbers(run / "step-13") == [13, 14]
    assert step_numbers(run / "step-20") == [20, 21]
    assert "2 more windows" in result.stderr
    assert result.left == []


def wait_for(path: Path, text: str = "") -> None:
    """Wait until a file is there and holds a text."""
    deadline = time.monotonic() + 60
    while not (path.is_file() and text in path.read_text("utf-8", "replace")):
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


def ask_and_end(process: Any, ask: Any) -> Any:
    """Ask a loop that runs until SIGTERM for a window, once its run folder is there."""
    wait_for(process.folder / "run" / "run.json")
    ask()
    traces = process.folder.glob(".run.partial-*/step-*/rank0.json*")
    deadline = time.monotonic() + 60
    while not any(not path.name.endswith("partial") for path in traces):
        assert time.monotonic() < deadline, "no window was profiled"
        time.sleep(0.05)
        traces = process.folder.glob(".run.partial-*/step-*/rank0.json*")
    process.wait_for("step 40 ")
    process.popen.send_signal(signal.SIGTERM)
    return process.end()


def test_a_file_asks_for_a_window_of_so_many_steps(loops: Any) -> None:
    program = loops.program("signalled", "SIGTERM", "0", python=loops.python("eager"))
    process = loops.start([*loops.collect(*STEPS, "--on-demand", "ask"), *program])
    result = ask_and_end(process, lambda: (process.folder / "ask").write_text("3"))
    assert result.exit_code == 0, result.stderr
    (window,) = windows_of(result.run.path)
    first = int(window.removeprefix("step-"))
    assert step_numbers(result.run.path / window) == [first, first + 1, first + 2]
    assert step_numbers(result.run.path) == [6, 7]


def test_a_signal_asks_for_a_window(loops: Any) -> None:
    """The program would end by it: it has no handler for it."""
    program = loops.program("signalled", "SIGTERM", "0", python=loops.python("eager"))
    process = loops.start([*loops.collect(*STEPS, "--on-signal", "USR1"), *program])
    result = ask_and_end(process, lambda: os.kill(process.popen.pid, signal.SIGUSR1))
    assert result.exit_code == 0, result.stderr
    (window,) = windows_of(result.run.path)
    first = int(window.removeprefix("step-"))
    assert step_numbers(result.run.path / window) == [first, first + 1]
    assert not list(result.folder.glob(".run.request-*"))


def test_only_the_chosen_ranks_leave_a_trace(loops: Any, cli: Any) -> None:
    command = [
        *loops.collect(*STEPS, "--ranks", "1"),
        *loops.program("ddp", ranks=2, python=loops.python("eager")),
    ]
    result = loops.start(command).end()
    assert result.exit_code == 0, result.stderr
    made = result.run.manifest
    assert made["outcome"] == "ok"
    assert result.run.traces == made["traces"] == ["rank1.json.gz"]
    assert [rank["trace"] for rank in made["ranks"]] == [None, "rank1.json.gz"]
    assert all(rank["wall_ns"] > 0 and rank["token_count"] > 0 for rank in made["ranks"])
    told = cli("breakdown", result.run.path)
    assert told.exit_code == 0, told.stderr
    assert "rank 1 of 2" in told.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ranks", "last"), "--ranks is 'last', which is no choice of ranks"),
        (("--every", "4"), "--every needs --windows"),
        (("--windows", "2"), "--windows needs --every"),
        (
            ("--windows", "0", "--every", "1"),
            "--windows is '0', which is not an integer of 1 or more",
        ),
        (("--on-signal", "TERM"), "--on-signal"),
    ],
)
def test_what_makes_no_sense(options: tuple[str, ...], message: str, cli: Any) -> None:
    result = cli("collect", *options, "--", sys.executable, "-c", "print('ran')")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
