"""A run of a few ranks that one can read on a screen."""

import json

import pytest
from traces_by_hand import call, kernel, span

from tracekit.engine import work


def events_of(rank):
    """Return one step of a rank: a matrix product and an all-reduce, which rank 1 comes late to."""
    late = 4 if rank == 1 else 0
    return [
        span("user_annotation", "ProfilerStep#1", 0, 60),
        span("cpu_op", "aten::mm", 1, 9, **{"External id": 1, "Sequence number": 3}),
        call(2, 4, 11),
        kernel("gemm_kernel", 5, 20 + late, 11),
        span("cpu_op", "c10d::allreduce_", 10, 14, **{"External id": 2}),
        call(11, 12, 12),
        kernel(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            21 + late,
            31,
            12,
            stream=9,
            **{
                "Collective name": "allreduce",
                "In msg nelems": 256,
                "Out msg nelems": 256,
                "Group size": 3,
                "dtype": "Float",
                "Process Group Name": "0",
                "Seq": 1,
            },
        ),
    ]


def write_ranks(folder, count=3, world_size=None, events=events_of):
    """Write the traces of some ranks; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank in range(count):
        info = {"rank": rank, "world_size": world_size or count, "backend": "nccl"}
        file = folder / f"rank{rank}.json"
        file.write_text(
            json.dumps({"distributedInfo": info, "traceEvents": events(rank)}), encoding="utf-8"
        )
        files.append(file)
    return files


def read_apart(patch):
    """Read small traces in separate units if there is more than one worker."""
    patch.setattr(work, "MIN_BATCH_BYTES", 1)


@pytest.fixture(autouse=True)
def places(cache):
    """Give each test its own cache and temporary folder."""


@pytest.fixture
def a_batch_each(monkeypatch):
    """Put each small trace into its own batch."""
    read_apart(monkeypatch)
