"""`tracekit join`, and what the parts of a job are when they are given together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tracekit import manifest

Run = Callable[..., Any]


@pytest.fixture
def tracekit(tmp_path: Path) -> Run:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tracekit", *words],
            env={**os.environ, "TRACEKIT_CACHE_DIR": str(tmp_path.with_name("cache"))},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def make_part(folder: Path, ranks: Sequence[int], job_id: str = "job") -> Path:
    """Make the run folder that a node left; its traces hold one op of 1 µs for each rank."""
    folder.mkdir(parents=True)
    for rank in ranks:
        event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1}
        trace = {
            "distributedInfo": {"rank": rank, "world_size": 4},
            "traceEvents": [event | {"dur": 1 + rank}],
        }
        (folder / f"rank{rank}.json").write_text(json.dumps(trace))
    run = manifest.Manifest(
        run_id=f"run-of-{ranks[0]}",
        tracekit_version="1",
        created_at="now",
        stage="custom",
        engine="ddp",
        job_id=job_id,
        parallel=manifest.Parallel(world_size=4, data_size=4),
        repeats=[manifest.Repeat(tokens_per_s=1.0, wall_ns=1000, step_ns=[1000])],
        tokens_per_s_mean=1.0,
        ranks=[
            manifest.Rank(rank, host_name=folder.name, token_count=10, wall_ns=1000 + rank)
            for rank in ranks
        ],
        traces=[f"rank{rank}.json" for rank in ranks],
    )
    manifest.write(run, folder)
    return folder


@pytest.fixture
def nodes(tmp_path: Path) -> list[str]:
    parts = {"node1": [2, 3], "node0": [0, 1]}
    return [str(make_part(tmp_path / "nodes" / name, ranks)) for name, ranks in parts.items()]


def test_parts_are_one_run_together(nodes: list[str], tracekit: Run) -> None:
    result = tracekit("sql", *nodes, "SELECT count(*) AS n, any_value(node_count) AS m FROM run")
    assert result.stdout.split()[-2:] == ["1", "2"]
    statement = "SELECT rank, run_id FROM trace ORDER BY rank"
    result = tracekit("sql", "--format", "csv", *nodes, statement)
    assert result.stdout.splitlines()[1:] == [f"{rank},run-of-0" for rank in range(4)]
    result = tracekit("breakdown", *nodes, "--format", "json")
    assert result.returncode == 0, result.stderr
    assert [row["rank"] for row in json.loads(result.stdout)["timeline"]] == [0, 1, 2, 3]
    folder = str(Path(nodes[0]).parent)
    result = tracekit("query", "methods", folder, "--format", "json")
    (row,) = json.loads(result.stdout)
    assert row["mean_tokens_per_s"] == pytest.approx(40 / 1003e-9)


def test_joining(nodes: list[str], tmp_path: Path, tracekit: Run) -> None:
    out = tmp_path / "whole"
    result = tracekit("join", *nodes, "-o", str(out))
    assert (result.returncode, result.stdout) == (0, f"{out}\n")
    assert result.stderr == "4 of 4 ranks, 4 traces, 2 nodes\n"
    run = manifest.read(out)
    assert [rank.rank for rank in run.ranks] == [0, 1, 2, 3]
    assert all((out / name).is_file() for name in run.traces)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nodes", "whole"]
    result = tracekit("join", *nodes, "-o", str(out))
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == f"error: {out} exists"
    assert tracekit("join", str(tmp_path / "nodes"), "-o", str(out), "--force").returncode == 0


def test_what_cannot_be_joined(nodes: list[str], tmp_path: Path, tracekit: Run) -> None:
    out = ["-o", str(tmp_path / "out")]
    other = make_part(tmp_path / "other", [2, 3], "another")
    result = tracekit("join", nodes[1], str(other), *out)
    assert result.returncode == 2
    assert result.stderr == f"error: {nodes[1]} and {other} are of different jobs\n"
    twice = make_part(tmp_path / "twice", [1, 2])
    result = tracekit("join", nodes[1], str(twice), *out)
    assert "hold some rank twice" in result.stderr
    result = tracekit("join", nodes[0], *out)
    assert result.stderr == "error: there is nothing to join: one run was given\n"
    (tmp_path / "empty").mkdir()
    result = tracekit("join", nodes[0], str(tmp_path / "empty"), *out)
    assert result.stderr.startswith(f"error: {tmp_path / 'empty'} holds no run\n")
    assert not (tmp_path / "out").exists()
