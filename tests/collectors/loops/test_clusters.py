"""Every command of the page about clusters is run, with what one machine can imitate of one."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "clusters.md"
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for line in block.splitlines()
]
# What a cluster has and one machine with two cores has not.
SMALLER = {
    "--nnodes 8": "--nnodes 2",
    "--nproc-per-node 8": "--nproc-per-node 1",
    "--nodes 8 --ntasks-per-node 8": "--nodes 2 --ntasks-per-node 1",
    "--num_machines 8 --num_processes 64": "--num_machines 2 --num_processes 2",
}
# Starts a task for each node, as Slurm does.
SRUN = """#!/bin/bash
nodes=$2
shift 4
for rank in $(seq 0 $((nodes - 1))); do
    SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=$rank SLURM_NTASKS=$nodes SLURM_LOCALID=0 \\
        SLURM_NTASKS_PER_NODE=1 RANK_OF_TASK=$rank "$@" &
    tasks="$tasks $!"
done
for task in $tasks; do wait $task || exit; done
"""
TRAIN = """
import os, runpy, sys
if "SLURM_PROCID" in os.environ:
    os.environ.update(RANK=os.environ["SLURM_PROCID"], WORLD_SIZE=os.environ["SLURM_NTASKS"])
sys.path.insert(0, {programs!r})
sys.argv = ["ddp.py"]
runpy.run_path({programs!r} + "/ddp.py", run_name="__main__")
"""
STEPS = "--warmup 1 --steps 2 --profile-steps 2"


@dataclass(frozen=True)
class Job:
    """A command that starts a job, and the package that it needs."""

    command: str

    @property
    def package(self) -> str:
        words = self.command.split()
        return next((name for name in ("deepspeed", "accelerate") if name in words), "torch")


STARTING = [Job(command) for command in COMMANDS if " collect " in command]
READING = [command for command in COMMANDS if " collect " not in command]


@pytest.fixture(scope="module")
def bench(loops: Any) -> Any:
    """Return a function that runs a command of the page, on both nodes if it names one."""
    name = "clusters"
    folder = loops._folder / name
    for part in ("bin", "work"):
        (folder / part).mkdir(parents=True)
    (folder / "bin" / "srun").write_text(SRUN)
    (folder / "bin" / "srun").chmod(0o755)
    # What the page calls by these names begins with torch imported, and its ranks with it.
    python = loops.python("eager")
    (folder / "bin" / "python").symlink_to(python)
    for launcher in ("torchrun", "accelerate", "deepspeed"):
        script = folder / "bin" / launcher
        script.write_text(
            f'#!/bin/sh\nexec {python} {Path(sys.executable).with_name(launcher)} "$@"'
        )
        script.chmod(0o755)
    programs = str(Path(__file__).with_name("programs"))
    (folder / "work" / "train.py").write_text(TRAIN.format(programs=programs))
    (folder / "work" / "hostfile").write_text("127.0.0.1 slots=1\nlocalhost slots=1\n")
    # So does what reads the runs, not what records them.
    reading = str(Path(loops.python("tracekit")).parent)

    def run(command: str) -> list[Any]:
        for large, small in SMALLER.items():
            command = command.replace(large, small)
        if "--warmup" not in command:
            command = command.replace(" collect ", f" collect {STEPS} ")
        installed = str(Path(sys.executable).parent)
        first = reading if command in READING else installed
        env = {
            "PATH": os.pathsep.join([str(folder / "bin"), first, installed, os.environ["PATH"]]),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(loops.free_port()),
            "TRACEKIT_CACHE_DIR": str(folder / "cache"),
            "COLUMNS": "120",
        }
        nodes = (0, 1) if "$NODE_RANK" in command else (0,)
        started = [
            loops.start(["bash", "-c", command], env={**env, "NODE_RANK": f"{node}"}, name=name)
            for node in nodes
        ]
        return [process.end() for process in started]

    return run


@pytest.mark.parametrize("job", STARTING, ids=lambda job: job.command.split("--out ")[1][:20])
def test_a_job_is_recorded(job: Job, bench: Any) -> None:
    if importlib.util.find_spec(job.package) is None:
        pytest.skip(f"{job.package} is not installed")
    results = bench(job.command)
    for result in results:
        assert result.exit_code == 0, result.stderr
        assert result.left == []
    out = job.command.split("--out ")[1].split()[0]
    if "srun" in job.command:
        (folder,) = results[0].folder.glob(out)
        assert sorted(path.name for path in folder.glob("rank*")) == [
            "rank0.json.gz",
            "rank1.json.gz",
        ]
        return
    for node, result in enumerate(results):
        folder = result.folder / out.replace("$NODE_RANK", str(node))
        assert [path.name for path in folder.glob("rank*")] == [f"rank{node}.json.gz"]


@pytest.mark.parametrize("command", READING)
def test_what_is_left_is_read(command: str, bench: Any) -> None:
    """After the jobs above, in the order of the page."""
    (result,) = bench(command)
    assert result.exit_code == 0, result.stderr
    if "windows" in command or "join " in command:
        assert result.stdout
    else:
        assert "ranks 0–1 of 2" in result.stdout
