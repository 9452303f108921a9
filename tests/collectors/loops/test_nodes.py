"""Jobs of several nodes, each with a `tracekit collect` of its own, here all on one machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tracekit

STEPS = 12


def traces_under(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("rank*.json.gz"))


def assert_recorded(results: list[Any], outs: list[str]) -> None:
    for rank, result in enumerate(results):
        assert result.exit_code == 0, result.stderr
        lines = [line for line in result.lines if " loss " in line]
        assert len(lines) == STEPS
        assert all(line.startswith(f"rank {rank} step ") for line in lines)
        assert result.left == []
    folder = results[0].folder
    if len(set(outs)) == 2:
        for rank, out in enumerate(outs):
            made = json.loads((folder / out / "run.json").read_text())
            assert made["traces"] == traces_under(folder / out) == [f"rank{rank}.json.gz"]
            assert made["parallel"]["world_size"] == 2
            assert made["outcome"] == "ok"
    else:
        assert traces_under(folder / outs[0]) == ["rank0.json.gz", "rank1.json.gz"]
        for path in (folder / outs[0]).rglob("run.json"):
            assert json.loads(path.read_text())["parallel"]["world_size"] == 2
    # Nothing beside the run folders: no partial folder of either invocation.
    assert {path.name for path in folder.iterdir()} == set(outs)
    given = sorted({str(folder / out) for out in outs})
    with tracekit.open(*given, cache=False) as trace:
        assert sorted(trace.query("timeline").column("rank")) == [0, 1]


def test_torchrun_on_each_of_two_nodes(loops: Any) -> None:
    port = loops.free_port()
    python = loops.python("eager")
    one = ("--nproc-per-node", "1")
    processes = [
        loops.start(
            [
                *loops.collect(),
                *loops.torchrun("--nnodes", "2", "--node-rank", f"{node}", *one, python=python),
                *("--master-addr", "127.0.0.1", "--master-port", str(port)),
                loops.program("ddp")[1],
            ],
            name="torchrun",
        )
        for node in (0, 1)
    ]
    assert_recorded([process.end() for process in processes], ["run", "run"])


@pytest.mark.parametrize(
    ("names", "outs"),
    [
        (("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"), ["run", "run"]),
        (
            ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
            ["run-a", "run-b"],
        ),
    ],
    ids=["slurm", "openmpi"],
)
def test_a_launcher_that_starts_tracekit_for_each_rank(
    names: tuple[str, str, str], outs: list[str], loops: Any
) -> None:
    port = str(loops.free_port())
    python = loops.python("eager")
    processes = [
        loops.start(
            [*loops.collect(out=outs[rank]), *loops.program("of_nodes", port, python=python)],
            env=dict(zip(names, (f"{rank}", "2", f"{rank}"), strict=True)),
            name=f"{names[0]}-{'-'.join(outs)}",
        )
        for rank in (0, 1)
    ]
    assert_recorded([process.end() for process in processes], outs)
