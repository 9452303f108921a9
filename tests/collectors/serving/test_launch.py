"""`--launch`: the server is started, waited for, and ended with all its children."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from processes import running, wait_for

from tracekit import manifest
from tracekit.errors import UsageError, WorkloadError

# Starts the stand-in as a child, as engines start workers, and a child that may ignore SIGTERM.
WRAPPER = """
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, *sys.argv[2:]])
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
patient = "import time; time.sleep(600)"
other = subprocess.Popen([sys.executable, "-c", stubborn if IS_STUBBORN else patient])
open(sys.argv[1], "w").write(f"{child.pid} {other.pid}")
print("the server has started", flush=True)
child.wait()
"""


@pytest.fixture
def launcher(tmp_path, stand_in_command):
    def command(engine="lightllm", *, stubborn=True, **quirks):
        script = tmp_path / "wrapper.py"
        script.write_text(f"IS_STUBBORN = {stubborn}\n{WRAPPER}")
        (python, *words), url = stand_in_command(engine, **quirks)
        return shlex.join([python, str(script), str(tmp_path / "pids"), *words]), url

    return command


@pytest.fixture(autouse=True)
def short_patience(monkeypatch):
    from tracekit.collectors.serving.http import engine as server_process

    monkeypatch.setattr(server_process, "_TERM_S", 0.5)


def test_the_server_is_ended_with_its_children(serve, launcher, tmp_path):
    command, url = launcher(profiling="torch_profiler", unhealthy_s=0.5)
    run = serve(None, engine="lightllm", launch=command, url=url)
    assert run.load.ok_count == 8
    assert run.load.server["launch"] == command
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert running(pids) == []
    assert (run.folder / "logs" / "server.log").read_text() == "the server has started\n"
    # LIGHTLLM_TRACE_DIR set the output folder of the server.
    assert run.manifest.traces == ["rank0.json.gz"]


def test_the_command_may_name_the_trace_folder(serve, launcher):
    command, url = launcher("vllm", profiling="torch", trace_dir="{trace_dir}")
    run = serve(None, engine="vllm", launch=command, url=url)
    assert run.manifest.traces == ["rank0.json.gz"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lists the sockets")
@pytest.mark.parametrize(("host", "is_open"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_a_server_that_others_can_use_is_noted(host, is_open, serve, launcher):
    command, url = launcher(host=host)
    run = serve(None, engine="lightllm", launch=command, url=url, no_profile=True)
    assert len([note for note in run.notes if "all interfaces" in note]) == is_open


def test_a_server_that_is_never_healthy_is_ended(serve, launcher, tmp_path):
    command, url = launcher(unhealthy_s=600)
    serve(None, engine="lightllm", launch=command, url=url, startup_timeout=1, error=f"^{url}")
    assert running([int(pid) for pid in (tmp_path / "pids").read_text().split()]) == []
    assert not (tmp_path / "run").exists()


DYING = "import sys; print('loading'); sys.exit('out of memory: 3 GB')"


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        ("no-such-server --port 1", WorkloadError, "--launch"),
        ("server 'open", UsageError, "--launch"),
        (" ", UsageError, "--launch"),
        (
            shlex.join([sys.executable, "-c", DYING]),
            WorkloadError,
            r"exit code 1 .*loading \| out of memory: 3 GB",
        ),
    ],
)
def test_a_server_that_does_not_start(command, error, message, serve, tmp_path):
    with pytest.raises(error, match=message):
        serve(None, engine="vllm", launch=command, url="http://127.0.0.1:9")
    assert list(tmp_path.iterdir()) == []


def test_a_running_server_is_not_mistaken_for_the_launched_one(stand_in, serve):
    server = stand_in("vllm")
    serve(server, launch="true", error=server.url)


def interrupted(tmp_path, launch, sign, *more, is_in_background=False):
    command, url = launch
    words = [
        sys.executable, "-m", "tracekit.collectors", "--stage", "serve", "--engine", "lightllm",
        "--launch", command, "--url", url, "--requests", "80", "--prompt-len", "8",
        "--max-new-tokens", "8", "--warmup-requests", "0", "--concurrency", "4",
        "--out", str(tmp_path / "run"), *more,
    ]  # fmt: skip
    if is_in_background:
        # The shell makes a background job ignore SIGINT.
        script = '"$@" & echo $! > "$PID_FILE"; wait $!; exit $?'
        words = ["bash", "-c", script, "bash", *words]
    process = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PID_FILE": str(tmp_path / "pid")},
    )
    for line in process.stderr:
        if line.startswith("sending"):
            break
    time.sleep(1)
    pid = int((tmp_path / "pid").read_text()) if is_in_background else process.pid
    os.kill(pid, sign)
    _, stderr = process.communicate(timeout=600)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    return SimpleNamespace(exit_code=process.returncode, stderr=stderr, pids=pids)


@pytest.mark.parametrize(
    ("sign", "is_in_background", "token_gap_s"),
    [
        (signal.SIGINT, False, 0.02),
        (signal.SIGTERM, False, 0.02),
        (signal.SIGTERM, True, 0.02),
        (signal.SIGINT, False, 3600),
    ],
)
def test_an_interrupt_keeps_the_results_and_ends_the_server(
    sign, is_in_background, token_gap_s, launcher, tmp_path
):
    launch = launcher(stubborn=False, token_gap_s=token_gap_s)
    done = interrupted(tmp_path, launch, sign, "--no-profile", is_in_background=is_in_background)
    assert done.exit_code == 130
    assert running(done.pids) == []
    assert "Traceback" not in done.stderr
    if token_gap_s == 3600:
        # Without an answer, nothing is left.
        assert not list(tmp_path.glob("*run*"))
        return
    run = manifest.read(tmp_path / "run")
    assert run.outcome == "incomplete"
    lines = (tmp_path / "run" / "requests.jsonl").read_text().splitlines()
    outcomes = Counter(json.loads(line)["outcome"] for line in lines)
    assert outcomes.total() == outcomes["ok"] + outcomes["cancelled"] == 80
    assert outcomes["ok"] > 0
    assert (run.load.ok_count, run.load.failed_count) == (outcomes["ok"], outcomes["cancelled"])


def test_a_killed_collector_leaves_no_server(launcher, tmp_path):
    launch = launcher(stubborn=False, token_gap_s=0.02)
    done = interrupted(tmp_path, launch, signal.SIGKILL, "--no-profile")
    wait_for(lambda: not running(done.pids), 300)
