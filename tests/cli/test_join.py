"""`tracekit collect join`, and the parts of a job when they are opened together."""

import json
from pathlib import Path

import pytest

from tracekit import manifest


def make_part(folder, ranks, job_id="job"):
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
def nodes(tmp_path):
    parts = {"node1": [2, 3], "node0": [0, 1]}
    return [str(make_part(tmp_path / "nodes" / name, ranks)) for name, ranks in parts.items()]


def test_parts_are_one_run_together(nodes, cli):
    result = cli("sql", *nodes, "SELECT count(*) AS n, any_value(node_count) AS m FROM run")
    assert result.stdout.split()[-2:] == ["1", "2"]
    statement = "SELECT rank, run_id FROM trace ORDER BY rank"
    result = cli("sql", "--format", "csv", *nodes, statement)
    assert result.stdout.splitlines()[1:] == [f"{rank},run-of-0" for rank in range(4)]
    result = cli("breakdown", *nodes, "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert [row["rank"] for row in json.loads(result.stdout)["timeline"]] == [0, 1, 2, 3]
    folder = str(Path(nodes[0]).parent)
    result = cli("query", "methods", folder, "--format", "json")
    (row,) = json.loads(result.stdout)
    assert row["mean_tokens_per_s"] == pytest.approx(40 / 1003e-9)


def test_joining(nodes, tmp_path, cli):
    out = tmp_path / "whole"
    result = cli("collect", "join", *nodes, "-o", str(out))
    assert (result.exit_code, result.stdout) == (0, f"{out}\n")
    assert result.stderr == "4 of 4 ranks, 4 traces, 2 nodes\n"
    run = manifest.read(out)
    assert [rank.rank for rank in run.ranks] == [0, 1, 2, 3]
    assert all((out / name).is_file() for name in run.traces)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nodes", "whole"]
    result = cli("collect", "join", *nodes, "-o", str(out))
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == f"error: {out} exists"
    assert cli("collect", "join", str(tmp_path / "nodes"), "-o", str(out), "--force").exit_code == 0


def test_runs_that_cannot_be_joined(nodes, tmp_path, cli):
    other = str(make_part(tmp_path / "other", [2, 3], "another"))
    twice = str(make_part(tmp_path / "twice", [1, 2]))
    (empty := tmp_path / "empty").mkdir()
    for parts, message in (
        ([nodes[1], other], "different jobs"),
        ([nodes[1], twice], "contain a rank twice"),
        ([nodes[0]], "one run was given"),
        ([nodes[0], str(empty)], f"{empty} is not a run"),
    ):
        result = cli("collect", "join", *parts, "-o", str(tmp_path / "out"))
        assert result.exit_code in (2, 3)
        assert message in result.stderr
        assert not (tmp_path / "out").exists()
