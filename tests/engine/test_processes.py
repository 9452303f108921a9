"""Workers that are killed, and an ingest that is interrupted."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from made_datasets import make_with_timeline
from run_of_ranks import write_ranks

import tracekit
from tracekit.engine import processes_engine
from tracekit.engine.choice import EngineChoice

CHOICE = EngineChoice("processes", worker_count=2)

# A worker that is killed when it reads the trace of a name, once or each time.
_KILLED = """
import sys; sys.path[:] = sys.argv[3:]
import os, pathlib, signal
from tracekit.engine import unit, worker_process
load = unit.load_trace
def killed(connection, reading, trace_id):
    rank = load(connection, reading, trace_id)
    once = pathlib.Path({once!r})
    if reading.path.name == {name!r} and not once.exists():
        if {is_once}:
            once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return rank
unit.load_trace = killed
worker_process.serve(int(sys.argv[1]), sys.argv[2])
"""


def kill_at(monkeypatch, folder, name, *, is_once):
    text = _KILLED.format(once=str(folder / "killed"), name=name, is_once=is_once)
    monkeypatch.setattr(processes_engine, "_START", text)


@pytest.mark.parametrize(
    "is_once",
    [pytest.param(True, marks=pytest.mark.nightly("the other case replaces workers, too")), False],
)
def test_killed_workers(tmp_path, monkeypatch, is_once):
    """A killed worker is replaced; a trace that kills its worker twice is listed as missing."""
    write_ranks(tmp_path / "run", 4)
    kill_at(monkeypatch, tmp_path, "rank2.json", is_once=is_once)
    manifest = make_with_timeline(tmp_path / "run", tmp_path / "run.tracekit", CHOICE)
    assert (tmp_path / "killed").exists() == is_once
    assert [missing.trace_id for missing in manifest.missing] == ([] if is_once else [2])
    assert all("rank2.json" in missing.reason for missing in manifest.missing)
    with tracekit.open(tmp_path / "run.tracekit") as trace:
        assert trace.query("timeline").column("rank") == [0, 1, *([2] if is_once else []), 3]
    assert [*Path(tempfile.gettempdir()).iterdir()] == []


def opened_for_reader(pipe, process):
    """Open a pipe as soon as the process reads it."""
    while True:
        try:
            return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb")
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_an_interrupt_ends_all_processes_and_leaves_no_dataset(tmp_path):
    """One trace is a pipe without a writer, so its worker waits."""
    write_ranks(tmp_path / "run", 2)
    os.mkfifo(tmp_path / "run/rank2.json")
    output = tmp_path / "run.tracekit"
    run = subprocess.Popen(
        [
            *(sys.executable, "-m", "tracekit", "ingest", tmp_path / "run/*", "-o", output),
            *("--engine", "processes", "--workers", "3"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with opened_for_reader(tmp_path / "run/rank2.json", run):
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=300)
    assert (run.returncode, out, err.strip()) == (130, b"", b"")
    assert not (output / "manifest.json").exists()
    assert [*Path(tempfile.gettempdir()).iterdir()] == []
    with pytest.raises(ProcessLookupError):
        os.killpg(run.pid, 0)


@pytest.mark.nightly("starts a program that starts workers")
def test_a_program_without_a_main_guard_is_not_run_again(tmp_path):
    write_ranks(tmp_path / "run", 2)
    program = tmp_path / "program.py"
    program.write_text(
        "from tracekit.engine.choice import EngineChoice\n"
        "from tracekit.opening import OpenRequest, open_request\n"
        "print('begun')\n"
        f"run = {str(tmp_path / 'run')!r}\n"
        "with open_request(OpenRequest([run], engine=EngineChoice('processes', 2))) as t:\n"
        "    print(t.query('timeline').column('rank'))\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("begun\n[0, 1]\n", "")
