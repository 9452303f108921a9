"""`tracekit bench` as people run it: what is left behind, whatever happens meanwhile."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import ranks_of, wait_for

import tracekit
from tracekit import manifest

pytest.importorskip("torch")

SMALL = ("--device", "cpu", "--seconds-per-point", "0.01")
TIMEOUT_S = 240


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TRACEKIT_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "120"}


def command(*arguments: str, python: str = sys.executable) -> list[str]:
    return [python, "-m", "tracekit", "bench", *arguments]


@pytest.fixture
def with_warm_workers(python: Callable[[str], str]) -> list[str]:
    """Return the command in a process of its own, whose workers have torch imported already."""
    code = "import sys; sys.executable = sys.argv.pop(1); from tracekit.cli._main import main\n"
    return [sys.executable, "-c", f"{code}sys.exit(main(sys.argv[1:]))", python("eager"), "bench"]


def run(
    environment: dict[str, str], folder: Path, *arguments: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments, *SMALL, python=python),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "benchmarks.jsonl").read_text().splitlines()]


def measured(folder: Path) -> int:
    """How many points have a line while the run is being made."""
    found = folder.glob(".run.partial-*/.work/lines-*.jsonl")
    return sum(path.read_bytes().count(b"\n") for path in found)


def test_all_of_it_in_small(environment: dict[str, str], tmp_path: Path) -> None:
    done = run(environment, tmp_path, "all", "--sizes", "32x32x32,1KiB,4KiB", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "measured: run\n" in done.stderr
    folder = tmp_path / "run"
    assert sorted(path.name for path in folder.iterdir()) == [
        "benchmarks.jsonl",
        "logs",
        "run.json",
    ]
    made = manifest.read(folder)
    assert (made.stage, made.outcome, made.engine) == ("bench", "ok", "torch")
    assert made.parallel.world_size == 2
    assert made.environment.packages["torch"]
    assert made.extra["planned_count"] == 2 + 2 + 14 + 1
    lines = lines_of(folder)
    assert [line["bench_id"] for line in lines] == list(range(19))
    assert {line["outcome"] for line in lines} == {"ok"}
    assert {line["device_name"] for line in lines} == {made.environment.processor}
    assert all(line["median_ns"] > 0 for line in lines)
    for title in ("Products", "Copies measured", "Collectives measured", "Launches"):
        assert title in done.stdout
    with tracekit.open(folder, cache=False) as trace:
        assert len(trace.query("bench_gemm")) == 2
        assert len(trace.query("bench_memcpy")) == 2
        assert len(trace.query("bench_collectives")) == 14
        assert len(trace.query("bench_launches")) == 1


def test_formats_exit_codes_and_names(
    environment: dict[str, str], tmp_path: Path, python: Callable[[str], str]
) -> None:
    launches = ("launches", "--out", "run")
    run_warm = functools.partial(run, environment, tmp_path, python=python("eager"))
    done = run_warm(*launches, "--format", "json")
    (row,) = json.loads(done.stdout)["bench_launches"]
    assert (row["op"], row["timer"]) == ("op_call", "wall_clock")
    taken = run_warm(*launches)
    assert (taken.returncode, taken.stdout) == (2, "")
    assert taken.stderr.startswith("error: run already holds a run\n")
    wrong = run_warm("gemm", "--sizes", "1KiB")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    none = run_warm("gemm", "--ops", "mm", "--dtype", "tf32", "--sizes", "4x4x4")
    assert none.returncode == 6
    assert "not one point could be measured: a CPU has no tf32" in none.stderr
    (left,) = (tmp_path / "runs").iterdir()
    assert left.name.startswith("bench-gemm-")
    assert manifest.read(left).outcome == "failed"
    assert lines_of(left)[0]["outcome"] == "unsupported"


def test_an_interrupt_keeps_what_is_done(
    with_warm_workers: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    # A minute for each point that is not steady; nobody waits for it.
    sizes = ",".join(["32x32x32", *(f"{400 + n}x400x400" for n in range(200))])
    arguments = ("gemm", "--dtype", "fp32", "--sizes", sizes, "--out", "run", *SMALL)
    with subprocess.Popen(
        [*with_warm_workers, *arguments],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for(lambda: measured(tmp_path) >= 2, TIMEOUT_S)
        (worker,) = ranks_of(process.pid)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert "Traceback" not in said
    made = manifest.read(tmp_path / "run")
    count = len(lines_of(tmp_path / "run"))
    assert 2 <= count < 201
    assert made.outcome == "incomplete"
    assert made.reason == f"interrupted when {count} of 201 points were measured"
    assert f"run: {made.reason}" in said
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert not Path(f"/proc/{worker}").exists()


def test_an_interrupt_before_the_first_point_leaves_nothing(
    with_warm_workers: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    with subprocess.Popen(
        [*with_warm_workers, "gemm", "--out", "run", *SMALL],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for(lambda: ranks_of(process.pid), TIMEOUT_S)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert not list(tmp_path.glob("*run*"))


def test_a_process_that_dies_costs_the_point_that_it_was_at(
    environment: dict[str, str], tmp_path: Path
) -> None:
    sizes = ",".join(f"{300 + n}x400x400" for n in range(40))
    arguments = ("gemm", "--dtype", "fp32", "--sizes", sizes, "--out", "run", *SMALL)
    # Cold: who kills a warm worker kills only what passes signals on to it.
    with subprocess.Popen(
        command(*arguments), cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for(lambda: measured(tmp_path) >= 2, TIMEOUT_S)
        (worker,) = ranks_of(process.pid)
        os.kill(worker, signal.SIGKILL)
        _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, said
    lines = lines_of(tmp_path / "run")
    assert [line["m"] for line in lines] == [300 + n for n in range(40)]
    (failed,) = (line for line in lines if line["outcome"] != "ok")
    assert (failed["outcome"], failed["reason"]) == ("failed", "the process died: signal SIGKILL")
    assert "1 point failed: the process died: signal SIGKILL" in said


def test_under_torchrun_the_ranks_are_torchruns(
    environment: dict[str, str], tmp_path: Path, python: Callable[[str], str]
) -> None:
    launcher = [python("eager"), "-m", "torch.distributed.run", "--standalone"]
    asked = ("all", "--ops", "all_gather,op_call", "--sizes", "1KiB", "--out", "run", *SMALL)
    done = subprocess.run(
        [*launcher, "--nproc-per-node", "3", "-m", "tracekit", "bench", *asked],
        cwd=tmp_path,
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Launches") == 1
    lines = lines_of(tmp_path / "run")
    assert [(line["op"], line["group_size"]) for line in lines] == [
        ("all_gather", 3), ("op_call", None),
    ]  # fmt: skip
    # Three ranks have equal parts of whole numbers of 4 bytes.
    assert lines[0]["message_bytes"] == 1020
    assert manifest.read(tmp_path / "run").parallel.world_size == 3
