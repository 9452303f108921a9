"""Which rank of which job a process is, as launchers tell it."""

from __future__ import annotations

from tracekit.collectors.process import job
from tracekit.collectors.process.distributed import Place


def test_launchers() -> None:
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


def test_the_script_of_a_batch_job_is_no_rank() -> None:
    batch = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7"}
    assert job.launched_place(batch) is None


def test_what_makes_no_sense_is_no_place() -> None:
    assert job.launched_place({"RANK": "9", "WORLD_SIZE": "8"}) is None
    assert job.launched_place({"SLURM_PROCID": "9", "SLURM_NTASKS": "8"}) is None
    assert job.launched_place({"SLURM_PROCID": "x", "SLURM_NTASKS": "8"}) is None


def test_ranks_of_a_node() -> None:
    assert job.local_rank_count({}) is None
    assert job.local_rank_count({"LOCAL_WORLD_SIZE": "8", "SLURM_NTASKS_PER_NODE": "1"}) == 8
    assert job.local_rank_count({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}) == 4
    assert job.local_rank_count({"SLURM_NTASKS_PER_NODE": "2(x3)"}) is None
