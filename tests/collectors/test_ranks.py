"""Ranks and steps: places from launchers, chosen ranks, locks on a rank, and step boundaries."""

import json
import os
import subprocess
import sys
import time

import pytest

from tracekit.collectors.loop.plan import check_ranks, is_traced
from tracekit.collectors.loop.rank_lock import RankClaim, rejected_count
from tracekit.collectors.loop.watch import StepFinder
from tracekit.collectors.process import job
from tracekit.collectors.process.distributed import Place
from tracekit.errors import UsageError


def test_launchers():
    assert job.launched_place({}) is None
    torchrun = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "SLURM_PROCID": "0"}
    assert job.launched_place(torchrun) == Place(3, 1, 8)
    slurm = {"SLURM_PROCID": "5", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1"}
    assert job.launched_place(slurm) == Place(5, 1, 16)
    step = slurm | {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}
    assert job.launched_place(step) == Place(5, 1, 16)
    open_mpi = {
        "OMPI_COMM_WORLD_RANK": "2",
        "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    }
    assert job.launched_place(open_mpi) == Place(2, 0, 4)
    assert job.launched_place({"PMI_RANK": "1", "PMI_SIZE": "2"}) == Place(1, 0, 2)


@pytest.mark.parametrize(
    "variables",
    [
        # The script of a batch job is not a rank.
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7"},
        {"RANK": "9", "WORLD_SIZE": "8"},
        {"SLURM_PROCID": "9", "SLURM_NTASKS": "8"},
        {"SLURM_PROCID": "x", "SLURM_NTASKS": "8"},
    ],
)
def test_no_place(variables):
    assert job.launched_place(variables) is None


def test_ranks_of_a_node():
    assert job.local_rank_count({}) is None
    assert job.local_rank_count({"LOCAL_WORLD_SIZE": "8", "SLURM_NTASKS_PER_NODE": "1"}) == 8
    assert job.local_rank_count({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}) == 4
    assert job.local_rank_count({"SLURM_NTASKS_PER_NODE": "2(x3)"}) is None


def traced(choice, world_size, per_node=8):
    ranks = range(world_size)
    return [r for r in ranks if is_traced(choice, Place(r, r % per_node, world_size))]


def test_chosen_ranks():
    assert traced(None, 8) == [*range(8)]
    assert traced(None, 24) == [0, 8, 16]
    assert traced("0,8,16-18", 24) == [0, 8, 16, 17, 18]
    assert traced("first-of-node", 4, per_node=2) == [0, 2]
    assert len(traced("all", 24)) == 24
    assert traced("99", 24) == []


@pytest.mark.parametrize("text", ["", "a", "1,", "3-1", "-1", "1--2", "0x1", "9" * 20])
def test_a_wrong_choice_of_ranks(text):
    with pytest.raises(UsageError, match="--ranks"):
        check_ranks(text)


@pytest.fixture
def idle(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (tmp_path / "rank0.process").write_text(str(other.pid), "ascii")
        yield other
        other.kill()


def compute():
    end_s = time.process_time() + 0.1
    while time.process_time() < end_s:
        pass


def test_the_first_of_two_is_recorded(tmp_path, idle):
    claim = RankClaim(tmp_path, 0)
    assert not claim.take()
    assert not claim.take(), "nothing is known of what it does meanwhile"
    assert rejected_count(tmp_path, 0) == 1, "one process, however often it asks"
    assert RankClaim(tmp_path, 1).take(), "another rank is free"
    idle.kill()
    idle.wait()
    assert claim.take(), "it has ended: a launcher starts the rank again"
    assert (tmp_path / "rank0.process").read_text("ascii") == str(os.getpid())
    assert claim.is_held
    assert claim.take(), "it is ours"
    assert rejected_count(tmp_path, 0) == 0


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("is_recorded", [False, True])
def test_one_that_idles_before_it_is_recorded(tmp_path, *, is_recorded):
    (tmp_path / "rank0.report.json").write_text(json.dumps({"is_recorded": is_recorded}), "utf-8")
    claim = RankClaim(tmp_path, 0)
    time.sleep(0.1)  # it starts up
    while not claim.take() and not is_recorded:
        compute()
    compute()
    assert claim.take() != is_recorded
    assert claim.is_held != is_recorded
    assert rejected_count(tmp_path, 0) == 1, "the one or the other"


def test_one_that_computes_keeps_its_rank(tmp_path):
    endless = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(endless) as other:
        (tmp_path / "rank0.process").write_text(str(other.pid), "ascii")
        claim = RankClaim(tmp_path, 0)
        for _ in range(3):
            assert not claim.take()
            compute()
        other.kill()


def test_a_zombie_has_ended(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as other:
        other.stdout.read()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        (tmp_path / "rank0.process").write_text(str(other.pid), "ascii")
        assert RankClaim(tmp_path, 0).take()


def test_a_missing_folder(tmp_path):
    claim = RankClaim(tmp_path / "gone", 0)
    assert claim.take()
    assert claim.is_held


def found(events):
    """Return the steps, and the events at which more optimizers take part than before."""
    finder = StepFinder()
    steps, changes = [""], []
    for number, event in enumerate(events):
        if event != "F":
            finder.optimizer_stepped(event)
        elif finder.is_over:
            if finder.begin():
                steps[-2:] = [steps[-2] + steps[-1]]
            steps.append("")
        steps[-1] += event
        if finder.take_change():
            changes.append(number)
    return steps, changes


@pytest.mark.parametrize(
    ("events", "steps", "changes"),
    [
        ("FaFaFa", ["Fa", "Fa", "Fa"], []),
        ("FFFaFFFa", ["FFFa", "FFFa"], []),  # accumulation
        ("FabFab", ["Fab", "Fab"], []),  # two optimizers, which both step in the first step
        ("FaaFaa", ["Faa", "Faa"], []),
        # The halves of a GAN: the first iteration shows two optimizers.
        ("FdFgFdFgFdFg", ["FdFg", "FdFg", "FdFg"], [3]),
        # Five steps of the critic for each of the generator.
        ("FdFdFgFdFdFgFdFdFg", ["Fd", "FdFg", "FdFdFg", "FdFdFg"], [5]),
        # The generator shows that these were not three steps.
        ("FdFdFdFgFdFdFdFg", ["Fd", "Fd", "FdFg", "FdFdFdFg"], [7]),
        ("FaFabFab", ["Fa", "Fab", "Fab"], [4]),  # one that is frozen at first
        ("Fa" * 9 + "FabFab", ["Fa"] * 9 + ["Fab"] * 2, [20]),
        ("FFF", ["FFF"], []),
    ],
)
def test_steps(events, steps, changes):
    assert found(events) == (steps, changes)


def test_an_optimizer_that_is_used_no_more_is_forgotten():
    steps, _ = found("Fab" + "Fa" * 12)
    assert steps[0] == "Fab"
    assert steps[-1] == "Fa"
    assert steps[1] == "Fa" * 8, "it was waited for eight times"


def test_one_that_comes_back_late_is_waited_for():
    iteration = "Fd" * 10 + "Fg"
    steps, _ = found(iteration * 6)
    assert steps[-3:] == [iteration] * 3, steps
