"""Processes that tracekit starts: ranks, children, programs, and samplers of power."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from processes import running, wait_for

from tracekit.collectors.process import child, distributed, launch, power, sessions
from tracekit.collectors.process.child import Child, end
from tracekit.collectors.process.distributed import Place, place_in
from tracekit.collectors.process.ending import describe_exit_code, shell_code, signal_name
from tracekit.collectors.process.launch import Failure, run_ranks
from tracekit.errors import UsageError


def script(folder, text):
    path = folder / "rank.py"
    path.write_text("import json, os, sys, time\n" + text, "utf-8")
    return [str(path), str(folder)]


def test_each_rank_finds_its_place(tmp_path):
    arguments = script(
        tmp_path,
        "names = ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE', 'EXTRA')\n"
        "print(json.dumps([os.environ[name] for name in names]))\n",
    )
    assert run_ranks(arguments, 3, tmp_path, environment={"EXTRA": "x"}) is None
    for rank in range(3):
        found = json.loads((tmp_path / f"rank{rank}.log").read_text("utf-8"))
        assert found == [str(rank), str(rank), "3", "3", "x"]


def test_a_rank_that_fails_ends_the_others(tmp_path):
    arguments = script(
        tmp_path,
        "if os.environ['RANK'] == '1':\n    raise ValueError('what a pity')\ntime.sleep(600)\n",
    )
    failure = run_ranks(arguments, 3, tmp_path)
    assert failure == Failure(1, 1, tmp_path / "rank1.log")
    assert str(failure) == "exit code 1 (ValueError: what a pity)"


def test_a_rank_that_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "_GRACE_S", 0.3)
    arguments = script(
        tmp_path,
        "import signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open(sys.argv[1] + '/ready' + os.environ['RANK'], 'w').close()\n"
        "while os.environ['RANK'] == '1' and not os.path.exists(sys.argv[1] + '/ready0'):\n"
        "    time.sleep(0.01)\n"
        "time.sleep(600 if os.environ['RANK'] == '0' else 0)\n"
        "sys.exit(3)\n",
    )
    failure = run_ranks(arguments, 2, tmp_path)
    assert (failure.rank, failure.exit_description) == (1, "exit code 3")


def test_ranks_do_not_outlive_a_launcher_that_is_killed(tmp_path):
    arguments = script(
        tmp_path,
        "from tracekit.collectors.process.launch import run_as_rank\n"
        "def work(place):\n"
        "    with open(f'{sys.argv[1]}/pid{place.rank}', 'w') as file:\n"
        "        print(os.getpid(), file=file)\n"
        "    time.sleep(600)\n"
        "run_as_rank(work)\n",
    )
    code = (
        "import pathlib, sys; from tracekit.collectors.process.launch import run_ranks;"
        "run_ranks(sys.argv[1:], 2, pathlib.Path(sys.argv[2]))"
    )
    files = [tmp_path / f"pid{rank}" for rank in range(2)]
    with subprocess.Popen([sys.executable, "-c", code, *arguments]) as launcher:
        while not all(file.exists() and file.read_text().endswith("\n") for file in files):
            assert launcher.poll() is None
            time.sleep(0.01)
        launcher.kill()
    wait_for(lambda: not running(int(file.read_text()) for file in files))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("print('1\\n2\\n\\n3\\n4')\nsys.exit(5)\n", "exit code 5 (2 | 3 | 4)"),
        ("os.kill(os.getpid(), 11)\n", "signal SIGSEGV"),
        ("import no_such_module\n", "No module named 'no_such_module')"),
    ],
)
def test_the_error_of_a_rank(text, error, tmp_path):
    assert str(run_ranks(script(tmp_path, text), 1, tmp_path)).endswith(error)


def test_ranks_do_not_import_from_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("json.py", "tracekit.py", "rank_module.py"):
        (tmp_path / name).write_text("raise SystemExit('from the current folder')\n")
    package = tmp_path / "path"
    package.mkdir()
    (package / "rank_module.py").write_text("import json, tracekit.manifest\n")
    paths = {"PYTHONPATH": str(package)}
    assert run_ranks(["-m", "rank_module"], 2, tmp_path, environment=paths) is None


def test_a_place_comes_from_the_environment():
    assert place_in({}) is None
    assert place_in({"RANK": "3"}) is None
    assert place_in({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}) == Place(3, 1, 8)
    for rank in ("8", "one"):
        with pytest.raises(UsageError, match="RANK"):
            place_in({"RANK": rank, "WORLD_SIZE": "8"})


# Starts two processes, one of them in its own group, writes their ids, and waits.
PARENT = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", sys.argv[2] + "; print(flush=True); import time; time.sleep(600)"]
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


def family(folder, script="pass", wait_s=600):
    pids = folder / "pids"
    command = [sys.executable, "-c", PARENT, str(pids), script, str(wait_s)]
    parent = Child(command, subprocess.DEVNULL)
    while not pids.exists():
        assert parent.exit_code is None
        time.sleep(0.01)
    return parent, [int(word) for word in pids.read_text().split()]


@pytest.mark.parametrize(
    ("script", "wait_s", "grace_s", "exit_code"),
    [("pass", 600, 300, -signal.SIGTERM), (DEAF, 600, 0.2, None), ("pass", 0, 0, 0)],
)
def test_a_child_ends_with_its_children(script, wait_s, grace_s, exit_code, tmp_path):
    """Also if they ignore SIGTERM, or if the child has ended before."""
    parent, pids = family(tmp_path, script, wait_s)
    if wait_s:
        assert parent.exit_description is None
        assert set(sessions.session_members([parent.pid])) == set(pids)
    else:
        assert parent.wait() == 0
        assert running(pids) == pids[1:]
    end([parent], grace_s)
    assert running(pids) == []
    assert exit_code in (None, parent.wait())


def test_a_second_interrupt_kills_at_once(tmp_path, monkeypatch):
    parent, pids = family(tmp_path, DEAF)
    looks = []

    def look(leaders):
        looks.append(session_members(leaders))
        if len(looks) == 2:  # they were asked to end, and have time to do so
            raise KeyboardInterrupt
        return looks[-1]

    session_members = sessions.session_members
    monkeypatch.setattr(sessions, "session_members", look)
    with pytest.raises(KeyboardInterrupt):
        end([parent], 3600)
    assert set(looks[0]) == set(pids)
    assert running(pids) == []


def test_without_proc_the_group_is_ended(tmp_path, monkeypatch):
    parent, pids = family(tmp_path)
    monkeypatch.setattr(sessions, "_PROC", tmp_path / "none")
    assert sessions.session_members([parent.pid]) == [-parent.pid]
    sessions.end_sessions([parent.pid], 30, 5, lambda: parent.exit_code)
    # The third has its own process group.
    assert running(pids) == pids[2:]
    assert sessions.session_members([parent.pid]) == []
    end([parent], 0)
    # Its guard looks into the real one.
    assert running(pids) == []


def test_endings_and_names_of_processes(tmp_path):
    (tmp_path / "stat").write_text("7 (a) b (c) S 1 2 3")
    assert sessions.read_stat(tmp_path / "stat") == ("a) b (c", ["S", "1", "2", "3"])
    assert sessions.read_stat(tmp_path / "none") is None
    assert [describe_exit_code(code) for code in (0, 3, -9, -11)] == [
        *("exit code 0", "exit code 3", "signal SIGKILL", "signal SIGSEGV")
    ]
    # Real-time signals have no name.
    assert signal_name(signal.SIGRTMIN + 1) == str(signal.SIGRTMIN + 1)
    assert [shell_code(code) for code in (0, 3, -9)] == [0, 3, 137]
    # A program that leaves with 130 got no signal.
    assert describe_exit_code(130) == "exit code 130"
    assert (sys.executable, "-P") == child.OWN_PYTHON


RUNNER = """
import os, signal, sys
if os.environ.get("NO_WAIT"):
    del signal.sigtimedwait
from tracekit.collectors.process.program import run_program
from tracekit.collectors.process.ending import shell_code
code = run_program(sys.argv[1:], os.environ, lambda: None, lambda number: False)
print("code", code, file=sys.stderr)
sys.exit(shell_code(code))
"""
# Logs each signal, and exits with its number after an empty line on stdin.
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


def start(program, **options):
    command = [sys.executable, "-c", RUNNER, sys.executable, "-c", program]
    options |= {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}
    return subprocess.Popen(command, text=True, **options)


def read_line(process):
    return process.stdout.readline().strip()


@pytest.mark.parametrize("is_on_linux", [True, False], ids=["", "without sigtimedwait"])
@pytest.mark.parametrize("to_group", [False, True], ids=["to us", "to the group"])
def test_a_signal_reaches_the_program_once(to_group, is_on_linux):
    process = start(PROGRAM, env={**os.environ, "NO_WAIT": "" if is_on_linux else "1"})
    assert read_line(process) == f"ready {process.pid}", "it is in our group"
    names = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGTERM")
    for number in (signal.Signals[name] for name in names):
        if to_group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert read_line(process) == f"got {number.value}"
    stdout, _ = process.communicate("\n", timeout=600)
    assert stdout == "", "each came once"
    assert process.returncode == 7


def test_a_program_that_a_signal_ends():
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
        process = start(f"import os; os.kill(os.getpid(), {number.value})")
        process.communicate(timeout=600)
        assert process.returncode == 128 + number


def test_children_of_the_program_are_left_running():
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
    )
    process = start(program)
    child = int(read_line(process))
    assert process.wait(600) == 0
    os.kill(child, 0)  # it is there
    process.communicate()  # closes its stdin, which ends it


def test_open_files_and_the_mask_are_the_programs(tmp_path):
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
        assert process.communicate(timeout=600) == ("set()\n", None)
        assert process.returncode == 0
    assert (tmp_path / "file").read_text() == "written"


def task(tasks, number, name, state):
    folder = tasks / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{number} ({name}) {state} 1 {number} 0 -1 0\n")


def test_the_wait_for_gloo_threads_is_limited(tmp_path, monkeypatch):
    pytest.importorskip("torch.distributed")
    monkeypatch.setattr(distributed, "_TASKS", tmp_path)
    naps = []

    def nap(duration_s):
        naps.append(duration_s)
        if len(naps) == 3:
            task(tmp_path, 1, "pt_gloo_runloop", "S")

    monkeypatch.setattr(time, "sleep", nap)
    task(tmp_path, 2, "odd) R (name", "R")
    (tmp_path / "4").mkdir()  # has just ended
    distributed.wait_for_gloo_threads()
    assert naps == []  # none is there
    assert distributed.gloo_thread_states(tmp_path / "none") == []
    task(tmp_path, 1, "pt_gloo_runloop", "R")
    distributed.wait_for_gloo_threads(limit_s=60)
    assert len(naps) == 4  # at work, at work, at rest twice
    task(tmp_path, 1, "pt_gloo_runloop", "R")
    distributed.wait_for_gloo_threads(limit_s=0)
    assert len(naps) == 4


def test_a_worker_waits_for_gloo_threads_at_its_end(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    found = []
    wait = lambda: found.append(torch.distributed.is_initialized())  # noqa: E731
    monkeypatch.setattr(distributed, "wait_for_gloo_threads", wait)
    place = distributed.Place(0, 0, 1)
    with distributed.process_group(place, torch.device("cpu"), tmp_path / "store"):
        assert torch.distributed.is_initialized()
        assert found == []
    assert found == [False]


LINES = ["2023/11/14 22:13:20.100, 2, 70.25", "2023/11/14 22:13:20.101, 0, 30.50", "odd line"]


def package(folder, number, energy_uj, name="package-0"):
    made = folder / f"intel-rapl:{number}"
    made.mkdir(parents=True, exist_ok=True)
    for file, text in (("name", name), ("energy_uj", energy_uj), ("max_energy_range_uj", 1000)):
        (made / file).write_text(f"{text}\n")
    return made


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """Install a tool of that name; return a file that exists once it has written its lines."""
    written = tmp_path / "written"
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    texts = " ".join(f"'{line}'" for line in LINES)
    tool.write_text(f"#!/bin/sh\nprintf '%s\\n' {texts}\n: > {written}\nexec sleep 600\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    return written


def test_energy_adds_up_through_a_wrap_and_over_packages(tmp_path):
    first, second = package(tmp_path, 0, 900), package(tmp_path, 1, 10)
    package(tmp_path, 2, 5, "psys")
    unread = package(tmp_path, 3, 5)
    (unread / "energy_uj").unlink()
    folders = power.packages(tmp_path)
    assert folders == [first, second]
    energy = power._Energy(folders)
    package(tmp_path, 0, 50)
    assert energy.sample() == 150
    package(tmp_path, 1, 35)
    assert energy.sample() == 175


def test_samples_have_the_device_numbers_of_the_program(nvidia_smi, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    folder = tmp_path / "run"
    folder.mkdir()
    with power.sampling(True, pytest.fail) as keep:
        wait_for(nvidia_smi.exists, 300)
        keep(folder)
    lines = (folder / "power.csv").read_text().splitlines()
    assert [line for line in lines if ",cpu," not in line] == [
        "timestamp,device,power [W],energy [uJ]",
        "2023-11-14T22:13:20.100Z,0,70.25,",
        "2023-11-14T22:13:20.101Z,1,30.50,",
    ]
    assert [file.name for file in folder.iterdir()] == ["power.csv"]


def test_sampling_ends_with_its_parent(nvidia_smi, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", power.__name__, str(tmp_path / "a.csv")], stdin=subprocess.PIPE
    )
    wait_for(nvidia_smi.exists, 300)
    process.stdin.close()
    assert process.wait(600) == 0


def test_a_program_runs_without_any_source_of_power(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(power, "_POWERCAP", tmp_path)
    messages = []
    with power.sampling(True, messages.append) as keep:
        keep(tmp_path)
    assert messages
    assert not (tmp_path / "power.csv").exists()
