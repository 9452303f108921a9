"""Jobs of two nodes, each with its own `tracekit collect`: the commands of the page on clusters."""

import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import pytest
from _loops import PROGRAMS
from processes import free_port

# Later commands of the page read the runs of earlier ones.
pytestmark = pytest.mark.nightly("starts two launchers per job; joining of runs is tested alone")

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "clusters.md"
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for line in block.splitlines()
]
STARTING = [command for command in COMMANDS if " --out " in command]
READING = [command for command in COMMANDS if " --out " not in command]
# Sizes on the page, and sizes that one machine with two cores can run.
SMALLER = {
    "--nnodes 8": "--nnodes 2",
    "--nproc-per-node 8": "--nproc-per-node 1",
    "--nodes 8 --ntasks-per-node 8": "--nodes 2 --ntasks-per-node 1",
    "--num_machines 8 --num_processes 64": "--num_machines 2 --num_processes 2",
}
# Starts a task per node, as Slurm does.
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


@pytest.fixture(scope="module")
def cluster(loops):
    folder = loops._folder / "clusters"
    for part in ("bin", "work"):
        (folder / part).mkdir(parents=True)
    (folder / "bin" / "srun").write_text(SRUN)
    (folder / "bin" / "srun").chmod(0o755)
    script = f"import runpy, sys; sys.path.insert(0, {str(PROGRAMS)!r}); sys.argv = ['ddp.py']\n"
    script += f"runpy.run_path({str(PROGRAMS / 'ddp.py')!r}, run_name='__main__')\n"
    (folder / "work" / "train.py").write_text(script)
    (folder / "work" / "hostfile").write_text("127.0.0.1 slots=1\nlocalhost slots=1\n")
    installed = str(Path(sys.executable).parent)

    def run(command):
        for large, small in SMALLER.items():
            command = command.replace(large, small)
        if "--out " in command and "--warmup" not in command:
            few = " collect --warmup 1 --steps 2 --profile-steps 2 "
            command = command.replace(" collect ", few)
        env = {
            "PATH": os.pathsep.join([str(folder / "bin"), installed, os.environ["PATH"]]),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "TRACEKIT_CACHE_DIR": str(folder / "cache"),
            "COLUMNS": "120",
        }
        started = [
            loops.start(
                ["bash", "-c", command], env={**env, "NODE_RANK": f"{node}"}, name="clusters"
            )
            for node in ((0, 1) if "$NODE_RANK" in command else (0,))
        ]
        return [process.end() for process in started]

    return run


@pytest.mark.parametrize("command", STARTING, ids=lambda text: text.split("--out ")[1][:20])
def test_a_job_of_the_page_is_recorded(command, cluster):
    package = next((name for name in ("deepspeed", "accelerate") if name in command.split()), "")
    if package and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    results = cluster(command)
    out = command.split("--out ")[1].partition(" ")[0]
    for node, result in enumerate(results):
        assert (result.exit_code, result.left) == (0, []), result.stderr
        (folder,) = result.folder.glob(out.replace("$NODE_RANK", str(node)))
        ranks = (0, 1) if "srun" in command else (node,)
        names = sorted(path.name for path in folder.glob("rank*"))
        assert names == [f"rank{rank}.json.gz" for rank in ranks]
        made = json.loads((folder / "run.json").read_text())
        assert (made["outcome"], made["traces"]) == ("ok", names)
        assert made["parallel"]["world_size"] == (1 if "--standalone" in command else 2)
        assert not list(result.folder.glob(".*partial*"))


@pytest.mark.parametrize("command", READING)
def test_the_runs_of_the_page_are_read(command, cluster):
    """After the jobs above, in the order of the page."""
    (result,) = cluster(command)
    assert result.exit_code == 0, result.stderr
    assert result.stdout
    if "windows" not in command and "join " not in command:
        assert "ranks 0–1 of 2" in result.stdout
