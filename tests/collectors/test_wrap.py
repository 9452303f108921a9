"""`tracekit collect … -- PROGRAM`: the program is unchanged, the run folder whole or absent."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tracekit import manifest

pytest.importorskip("torch")

COLLECT = [sys.executable, "-m", "tracekit.collectors", "--warmup", "1", "--steps", "2"]
COLLECT += ["--profile-steps", "2"]
NEEDED = 1 + 2 + 2 + 1 + 2
PARTS = "1 to warm up, 2 timed, 2 with ranges, 1 for the profiler to warm up and 2 profiled"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
TORCHRUN += ["--master-port", "29541"]

TRAIN = """
import os, sys, time, torch
from torch import nn
count, mode = int(sys.argv[1]), sys.argv[2:]
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 32))
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
batch = torch.arange(16).reshape(2, 8)
for number in range(count):
    for _ in range(2 if "accumulate" in mode else 1):
        criterion(model(batch).flatten(0, 1), batch.flatten()).backward()
    optimizer.step()
    if "two" in mode:
        optimizer.step()
    optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        loss = criterion(model(batch).flatten(0, 1), batch.flatten()).item()
    model.train()
print(f"loss {loss:.6f} {sys.argv} {os.path.basename(__file__)}", flush=True)
if "wait" in mode:
    open("waiting", "w").close()
    time.sleep(60)
if torch.distributed.is_initialized():
    # On a busy machine gloo's threads abort now and then when the process ends in the usual way.
    torch.distributed.barrier()
    os._exit(0)
if "fail" in mode:
    sys.exit(3)
"""


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(TRAIN)
    return subprocess.run(
        list(words),
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_end_is_the_programs_where_nobody_reads(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    ending = [sys.executable, "-c", "raise SystemExit(3)"]
    command = [*COLLECT, "--out", "run", "--", *ending]
    done = subprocess.run(command, cwd=tmp_path, stderr=write, timeout=240, check=False)
    os.close(write)
    assert done.returncode == 3


def wrapped(folder: Path, *program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(folder, *COLLECT, "--out", "run", "--", *program, **environment)


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "train.py")


def span_names(folder: Path, rank: int = 0) -> Counter[str]:
    trace = json.loads(gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes()))
    return Counter(event.get("name", "") for event in trace["traceEvents"])


@pytest.fixture
def warm(python: Callable[[str], str]) -> str:
    """Return a Python that has imported torch, for programs whose start is not what is tried."""
    return python("eager")


def test_a_program_is_recorded_and_computes_what_it_did(tmp_path: Path, warm: str) -> None:
    """It accumulates gradients and steps twice; what is plain is in loops/test_matrix.py."""
    words = [warm, "train.py", f"{NEEDED + 4}", "accumulate", "two"]
    plain = run(tmp_path, *words)
    result = wrapped(tmp_path, *words)
    assert result.returncode == 0, result.stderr
    assert result.stdout == plain.stdout
    assert left_in(tmp_path) == ["run"]
    made = manifest.read(tmp_path / "run")
    assert made.outcome == "ok"
    assert made.stage == "custom"
    assert made.command[-6:] == ["--", *words]
    assert made.model is not None
    assert made.model.name == "Sequential"
    assert made.steps == manifest.Steps(1, 4, 1, 2)
    (repeat,) = made.repeats
    assert repeat.tokens_per_s == pytest.approx(4 * 2 * 16 * 1e9 / repeat.wall_ns)
    names = span_names(tmp_path / "run")
    # The evaluation after each step calls the model once more.
    assert names["tk/module/forward/1#Linear"] == 2 * 3
    assert names["tk/module/forward/CrossEntropyLoss#CrossEntropyLoss"] == 2 * 3
    # The model, and the loss.
    assert names["tk/phase/forward"] == names["tk/phase/evaluation"] * 2 == 2 * 2 * 2
    assert made.gradient_accumulation == 2
    assert names["tk/phase/backward"] == 2 * 2
    assert names["tk/phase/optimizer"] == 2 * 2
    assert names["tk/step/6"] == names["tk/step/7"] == 1


BAR = """
import os, sys, time, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(20):
    sys.stderr.write(f"\\r{number} of 20 |##  |")
    sys.stderr.flush()
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
until = time.monotonic() + 60
while not os.path.exists("run/run.json") and time.monotonic() < until:
    time.sleep(0.05)
print("there in time" if time.monotonic() < until else "too late")
time.sleep(0.5)
sys.stderr.write("\\r20 of 20 |####|\\n")
"""


def test_lines_begin_on_a_line_of_their_own_beside_an_open_bar(tmp_path: Path, warm: str) -> None:
    (tmp_path / "bar.py").write_text(BAR)
    result = wrapped(tmp_path, warm, "bar.py")
    assert result.returncode == 0, result.stderr
    assert "there in time" in result.stdout
    lines = [line for line in result.stderr.split("\n") if "tracekit: " in line]
    assert lines[-1].endswith("the program runs on")
    assert all(line.startswith("tracekit: ") for line in lines)


def test_a_program_that_fails_before_it_is_recorded(tmp_path: Path, warm: str) -> None:
    result = wrapped(tmp_path, warm, "train.py", "3", "fail")
    assert result.returncode == 3
    reason = f"rank 0: the loop ended after 3 steps, but {NEEDED} are needed: {PARTS}"
    assert f"tracekit: {reason}; the program ended with exit code 3\n" in result.stderr
    assert "tracekit: the run folder holds no trace: run\n" in result.stderr
    made = manifest.read(tmp_path / "run")
    assert (made.outcome, made.exit_code) == ("failed", 3)
    assert made.reason == f"{reason}; the program ended with exit code 3"
    assert made.overhead is not None
    assert made.overhead.plain_step_ns
    # It has no trace, so the next run may have its name.
    result = wrapped(tmp_path, warm, "train.py", f"{NEEDED + 1}")
    assert result.returncode == 0
    assert manifest.read(tmp_path / "run").outcome == "ok"


def test_a_program_that_fails_after_it_was_recorded(tmp_path: Path, warm: str) -> None:
    result = wrapped(tmp_path, warm, "train.py", f"{NEEDED + 4}", "fail")
    assert result.returncode == 3
    reason = "the program ended with exit code 3 after it was recorded"
    assert f"tracekit: {reason}; run is whole\n" in result.stderr
    made = manifest.read(tmp_path / "run")
    assert (made.outcome, made.reason, made.exit_code) == ("failed", reason, 3)
    assert made.traces == ["rank0.json.gz"]
    # It has a trace, so nothing takes its name.
    result = wrapped(tmp_path, warm, "train.py", "1")
    assert result.returncode == 2
    assert "error: run already holds a run\n" in result.stderr


def test_programs_that_train_nothing(tmp_path: Path) -> None:
    result = wrapped(tmp_path, sys.executable, "-c", "pass")
    assert result.returncode == 0
    assert (
        ": no Python of it was seen to import torch, so no run folder was written; "
        in result.stderr
    )
    result = wrapped(tmp_path, "no-such-program")
    assert result.returncode == 2
    assert result.stderr == (
        "error: no-such-program cannot be started: No such file or directory\n"
    )
    result = run(tmp_path, *COLLECT, "--opt", "Z3", "--", sys.executable, "-c", "pass")
    assert result.returncode == 2
    assert result.stderr == (
        "error: --opt is for tracekit's own workloads; what comes after -- decides this itself\n"
    )
    assert left_in(tmp_path) == []
    result = wrapped(tmp_path, sys.executable, "-c", "import sys; sys.exit(5)")
    assert result.returncode == 5
    made = manifest.read(tmp_path / "run")
    assert (made.outcome, made.exit_code) == ("failed", 5)
    assert made.reason == "the program ended with exit code 5 before a training step was seen"


def test_a_name_that_is_taken(tmp_path: Path, warm: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("keep")
    result = wrapped(tmp_path, sys.executable, "-c", "print('never')")
    assert (result.returncode, result.stdout) == (2, "")
    assert "error: run exists and is no run folder, so it is not replaced\n" in result.stderr
    # Under a launcher the other ranks would wait for one that has given up.
    words = [warm, "train.py", f"{NEEDED}"]
    result = wrapped(tmp_path, *words, SLURM_PROCID="0", SLURM_NTASKS="1", SLURM_LOCALID="0")
    assert result.returncode == 0, result.stderr
    assert left_in(tmp_path) == ["run", "run-2"]
    assert manifest.read(tmp_path / "run-2").traces == ["rank0.json.gz"]
    assert (tmp_path / "run" / "mine.txt").read_text() == "keep"


def test_a_folder_that_cannot_be_written(tmp_path: Path, warm: str) -> None:
    (tmp_path / "file").write_text("")
    plain = run(tmp_path, warm, "train.py", f"{NEEDED}")
    words = [*COLLECT, "--out", "file/run", "--", warm, "train.py", f"{NEEDED}"]
    result = run(tmp_path, *words)
    assert (result.returncode, result.stdout) == (0, plain.stdout)
    assert "; the program runs without being recorded\n" in result.stderr


def test_the_machines_own_sitecustomize_runs_too(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    # What it does here is make tracekit impossible to import, which is said.
    (site / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'TRACEKIT_WRAP' in os.environ:\n"
        "    sys.modules['tracekit.collectors.loop.bootstrap'] = None\n"
    )
    result = wrapped(tmp_path, sys.executable, "-c", "pass", PYTHONPATH=str(site))
    assert result.returncode == 0
    assert f"its Python cannot load the collectors: {sys.executable}: " in result.stderr
    assert left_in(tmp_path) == ["site"]


def test_one_inside_of_another_records(tmp_path: Path, warm: str) -> None:
    """A script that people run under collect may do so itself: of the two, one may profile."""
    plain = run(tmp_path, warm, "train.py", f"{NEEDED + 4}")
    inner = [*COLLECT, "--out", "inner", "--", warm, "train.py", f"{NEEDED + 4}"]
    result = wrapped(tmp_path, *inner)
    assert (result.returncode, result.stdout) == (0, plain.stdout), result.stderr
    assert left_in(tmp_path) == ["inner"]
    assert manifest.read(tmp_path / "inner").outcome == "ok"
    assert span_names(tmp_path / "inner")["tk/step/6"] == 1
    assert "a `tracekit collect` inside of it recorded what it trains" in result.stderr


def test_sigint_ends_the_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    process = subprocess.Popen(
        [*COLLECT, "--out", "run", "--", sys.executable, "train.py", "3", "wait"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "waiting").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    (tmp_path / "waiting").unlink()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    made = manifest.read(tmp_path / "run")
    assert (made.outcome, made.exit_code) == ("failed", 130)
    assert made.reason == "rank 0: KeyboardInterrupt; the program ended with signal SIGINT"


def test_two_ranks_of_a_launcher_that_starts_collect(tmp_path: Path, warm: str) -> None:
    """What starts below collect is in loops/test_matrix.py."""
    words = [warm, *TORCHRUN[1:], "-m", *COLLECT[2:], "--out", "run", "--"]
    result = run(tmp_path, *words, warm, "train.py", f"{NEEDED + 4}")
    assert result.returncode == 0, result.stderr
    assert left_in(tmp_path) == ["run"]
    made = manifest.read(tmp_path / "run")
    assert made.engine == "ddp"
    assert made.parallel.world_size == 2
    assert made.traces == ["rank0.json.gz", "rank1.json.gz"]
    for rank in (0, 1):
        assert span_names(tmp_path / "run", rank)["tk/phase/optimizer"] == 2
