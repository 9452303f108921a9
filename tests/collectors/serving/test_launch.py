"""`--launch`: the server is started, waited for, and ended with all that it started."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from _stand_in_command import stand_in_command
from processes import running, wait_for

from tracekit import manifest
from tracekit.errors import UsageError, WorkloadError

Run = Callable[..., Any]

# Starts the stand-in as a child, as engines start workers, and another that may ignore SIGTERM.
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


def launcher(
    tmp_path: Path, engine: str = "lightllm", *, is_stubborn: bool = True, **quirks: Any
) -> tuple[str, str]:
    """Return a command that starts a stand-in as a child, and its URL."""
    script = tmp_path / "wrapper.py"
    script.write_text(f"IS_STUBBORN = {is_stubborn}\n{WRAPPER}")
    (python, *words), url = stand_in_command(tmp_path, engine, **quirks)
    return shlex.join([python, str(script), str(tmp_path / "pids"), *words]), url


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracekit.collectors.process import server as server_process

    monkeypatch.setattr(server_process, "_TERM_S", 0.5)


def test_the_server_is_ended_with_its_children(serve: Run, tmp_path: Path) -> None:
    command, url = launcher(tmp_path, profiling="torch_profiler", unhealthy_s=0.5)
    run = serve(None, engine="lightllm", launch=command, url=url)
    assert run.load.ok_count == 8
    assert run.load.server["launch"] == command
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert running(pids) == []
    assert (run.folder / "logs" / "server.log").read_text() == "the server has started\n"
    # The server was told by LIGHTLLM_TRACE_DIR where to write.
    assert run.manifest.traces == ["rank0.json.gz"]
    assert run.lines[:2] == [f"starting {command}", f"waiting for {url}/health"]


def test_the_command_may_name_the_trace_folder(serve: Run, tmp_path: Path) -> None:
    command, url = launcher(tmp_path, "vllm", profiling="torch", trace_dir="{trace_dir}")
    run = serve(None, engine="vllm", launch=command, url=url)
    assert run.manifest.traces == ["rank0.json.gz"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")
@pytest.mark.parametrize(("host", "is_open"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_a_server_that_others_can_use_is_noted(
    host: str, is_open: bool, serve: Run, tmp_path: Path
) -> None:
    command, url = launcher(tmp_path, host=host)
    run = serve(None, engine="lightllm", launch=command, url=url, no_profile=True)
    noted = [note for note in run.notes if "listens on all interfaces" in note]
    assert len(noted) == is_open


def test_a_server_that_dies_at_once_says_its_last_words(serve: Run, tmp_path: Path) -> None:
    script = "import sys; print('loading'); sys.exit('out of memory: 3 GB')"
    command = shlex.join([sys.executable, "-c", script])
    with pytest.raises(WorkloadError) as caught:
        serve(None, engine="vllm", launch=command, url="http://127.0.0.1:9")
    assert caught.value.message == (
        "--launch: the server ended with exit code 1 before it was ready: "
        "loading | out of memory: 3 GB"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_never_healthy_is_ended(serve: Run, tmp_path: Path) -> None:
    command, url = launcher(tmp_path, unhealthy_s=600)
    with pytest.raises(WorkloadError) as caught:
        serve(None, engine="lightllm", launch=command, url=url, startup_timeout=1)
    assert caught.value.message.startswith(f"{url}: no healthy lightllm server after 1 s: ")
    assert caught.value.hint == "its last words: the server has started"
    assert running([int(pid) for pid in (tmp_path / "pids").read_text().split()]) == []
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        ("no-such-server --port 1", WorkloadError,
         "--launch: no-such-server cannot be run: No such file or directory"),
        ("server 'open", UsageError, "--launch cannot be split into words: No closing quotation"),
        (" ", UsageError, "--launch is empty"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_run(
    command: str, error: type[Exception], message: str, serve: Run, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        serve(None, engine="vllm", launch=command, url="http://127.0.0.1:9")
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_there_already_is_not_taken_for_ours(
    stand_in: Callable[..., Any], serve: Run
) -> None:
    server = stand_in("vllm")
    with pytest.raises(WorkloadError) as caught:
        serve(server, launch="true")
    assert caught.value.message == f"--launch: something already answers at {server.url}"


def interrupted(
    tmp_path: Path,
    sign: signal.Signals,
    *more: str,
    is_in_background: bool = False,
    **quirks: Any,
) -> tuple[subprocess.CompletedProcess[str], list[int]]:
    """Run the collector as a process, and send it a signal when requests are under way."""
    command, url = launcher(tmp_path, is_stubborn=False, **quirks)
    words = [
        sys.executable, "-m", "tracekit.collectors", "--stage", "serve", "--engine", "lightllm",
        "--launch", command, "--url", url, "--requests", "80", "--prompt-len", "8",
        "--max-new-tokens", "8", "--warmup-requests", "0", "--concurrency", "4",
        "--out", str(tmp_path / "run"), *more,
    ]  # fmt: skip
    if is_in_background:
        # As a script does it: the shell has such a job ignore SIGINT.
        script = '"$@" & echo $! > "$PID_FILE"; wait $!; exit $?'
        words = ["bash", "-c", script, "bash", *words]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PID_FILE": str(tmp_path / "pid")},
    )
    deadline = time.monotonic() + 60
    lines = []
    assert process.stderr is not None
    while not any(line.startswith("sending") for line in lines):
        assert time.monotonic() < deadline
        lines.append(process.stderr.readline())
    time.sleep(1)
    pid = int((tmp_path / "pid").read_text()) if is_in_background else process.pid
    os.kill(pid, sign)
    out, err = process.communicate(timeout=60)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    done = subprocess.CompletedProcess(words, process.returncode, out, "".join(lines) + err)
    return done, pids


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_what_was_measured_and_ends_the_server(
    sign: signal.Signals, tmp_path: Path
) -> None:
    done, pids = interrupted(tmp_path, sign, "--no-profile", token_gap_s=0.02)
    assert done.returncode == 130
    assert running(pids) == []
    run = manifest.read(tmp_path / "run")
    assert run.outcome == "incomplete"
    lines = (tmp_path / "run" / "requests.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == 80
    ok = [record for record in records if record["outcome"] == "ok"]
    cancelled = [record for record in records if record["outcome"] == "cancelled"]
    assert ok
    assert len(ok) + len(cancelled) == 80
    assert run.reason == f"interrupted when {len(ok)} of 80 requests were done"
    reasons = {record["reason"] for record in cancelled}
    assert "the load was stopped before it was sent" in reasons
    # Whether one was on its way at that instant, and whether it was being answered, is chance.
    on_its_way = reasons - {"the load was stopped before it was sent"}
    how_far = ("the load was stopped after ", "the load was stopped before an answer")
    assert all(reason.startswith(how_far) for reason in on_its_way)
    assert f"failed: {len(cancelled)} cancelled" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_job_in_the_background_obeys_sigterm(tmp_path: Path) -> None:
    done, pids = interrupted(
        tmp_path, signal.SIGTERM, "--no-profile", is_in_background=True, token_gap_s=0.02
    )
    assert done.returncode == 130
    assert running(pids) == []
    assert manifest.read(tmp_path / "run").outcome == "incomplete"
    assert "Traceback" not in done.stderr


def test_a_killed_collector_leaves_no_server(tmp_path: Path) -> None:
    _, pids = interrupted(tmp_path, signal.SIGKILL, "--no-profile", token_gap_s=0.02)
    wait_for(lambda: not running(pids))


def test_ctrl_c_before_the_first_answer_leaves_nothing(tmp_path: Path) -> None:
    done, pids = interrupted(tmp_path, signal.SIGINT, behavior=["silent"])
    assert done.returncode == 130
    assert running(pids) == []
    assert not (tmp_path / "run").exists()
    assert not list(tmp_path.glob(".run*"))
