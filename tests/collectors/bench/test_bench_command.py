"""`tracekit bench`: run folders and exit codes, also after interrupts and crashes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import finished, ranks_of, wait_for

import tracekit
from tracekit import manifest

pytest.importorskip("torch")

SMALL = ("--device", "cpu", "--seconds-per-point", "0.01")
TIMEOUT_S = 600
nightly = pytest.mark.nightly("starts processes that import torch; points are measured in process")


def start(tmp_path, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "tracekit", "bench", *arguments, *SMALL],
        cwd=tmp_path,
        env={**os.environ, "TRACEKIT_CACHE_DIR": str(tmp_path / "cache")},
        stderr=subprocess.PIPE,
        text=True,
    )


def lines_of(folder):
    return [json.loads(line) for line in (folder / "benchmarks.jsonl").read_text().splitlines()]


def measured(folder):
    found = folder.glob(".run.partial-*/.work/lines-*.jsonl")
    return sum(path.read_bytes().count(b"\n") for path in found)


@nightly
def test_all_of_it_in_small(cli, tmp_path):
    sizes = "32x32x32,1KiB,4KiB"
    done = cli("bench", "all", "--sizes", sizes, "--out", "run", *SMALL, is_here=True)
    assert done.exit_code == 0, done.stderr
    folder = tmp_path / "run"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["benchmarks.jsonl", "logs", "run.json"]
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
    with tracekit.open(folder, cache=False) as trace:
        names = ("gemm", "memcpy", "collectives", "launches")
        assert [len(trace.query(f"bench_{name}")) for name in names] == [2, 2, 14, 1]


@pytest.mark.nightly("imports torch; the points are tested alone")
def test_formats_exit_codes_and_names(cli, tmp_path):
    launches = ("bench", "launches", "--out", "run", *SMALL)
    done = cli(*launches, "--format", "json", is_here=True)
    (row,) = json.loads(done.stdout)["bench_launches"]
    assert (row["op"], row["timer"]) == ("op_call", "wall_clock")
    for taken in (launches, ("bench", "gemm", "--sizes", "1KiB", *SMALL)):
        done = cli(*taken, is_here=True)
        assert (done.exit_code, done.stdout) == (2, "")
    one = ("--ops", "mm", "--dtype", "tf32", "--sizes", "4x4x4")
    assert cli("bench", "gemm", *one, *SMALL, is_here=True).exit_code == 6
    (left,) = (tmp_path / "runs").iterdir()
    assert left.name.startswith("bench-gemm-")
    assert manifest.read(left).outcome == "failed"
    assert lines_of(left)[0]["outcome"] == "unsupported"


@nightly
def test_an_interrupt_keeps_the_measured_points(tmp_path):
    sizes = ",".join(["32x32x32", *(f"{400 + n}x400x400" for n in range(200))])
    with start(tmp_path, "gemm", "--dtype", "fp32", "--sizes", sizes, "--out", "run") as process:
        wait_for(lambda: measured(tmp_path) >= 2, TIMEOUT_S)
        (worker,) = ranks_of(process.pid)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert "Traceback" not in errors
    made = manifest.read(tmp_path / "run")
    count = len(lines_of(tmp_path / "run"))
    assert 2 <= count < 201
    assert made.outcome == "incomplete"
    assert f"{count} of 201" in str(made.reason)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert not Path(f"/proc/{worker}").exists()


@nightly
def test_an_interrupt_before_the_first_point_leaves_nothing(tmp_path):
    with start(tmp_path, "gemm", "--out", "run") as process:
        wait_for(lambda: ranks_of(process.pid), TIMEOUT_S)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert not list(tmp_path.glob("*run*"))


@nightly
def test_a_process_that_dies_costs_one_point(tmp_path):
    sizes = ",".join(f"{300 + n}x400x400" for n in range(40))
    with start(tmp_path, "gemm", "--dtype", "fp32", "--sizes", sizes, "--out", "run") as process:
        wait_for(lambda: measured(tmp_path) >= 2, TIMEOUT_S)
        (worker,) = ranks_of(process.pid)
        os.kill(worker, signal.SIGKILL)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    lines = lines_of(tmp_path / "run")
    assert [line["m"] for line in lines] == [300 + n for n in range(40)]
    (failed,) = (line for line in lines if line["outcome"] != "ok")
    assert (failed["outcome"], failed["reason"]) == ("failed", "the process died: signal SIGKILL")


@nightly
def test_under_torchrun(tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = ("all", "--ops", "all_gather,op_call", "--sizes", "1KiB", "--out", "run", *SMALL)
    done = finished(
        *(*launcher, "--nproc-per-node", "3", "-m", "tracekit", "bench", *words),
        cwd=tmp_path,
        TRACEKIT_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Launches") == 1
    lines = lines_of(tmp_path / "run")
    assert [(line["op"], line["group_size"]) for line in lines] == [
        ("all_gather", 3), ("op_call", None),
    ]  # fmt: skip
    # Three ranks have equal parts with an integer number of 4-byte elements.
    assert lines[0]["message_bytes"] == 1020
    assert manifest.read(tmp_path / "run").parallel.world_size == 3
