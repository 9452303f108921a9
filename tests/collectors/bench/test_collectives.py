"""Each collective moves the right data, with the bytes that nccl-tests counts."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tracekit.collectors.bench.collectives import OPS, total_bytes
from tracekit.collectors.process import launch


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    script = Path(__file__).with_name("_ranks.py")
    failure = launch.run_ranks([str(script), str(folder)], 2, folder)
    if failure is not None:
        pytest.fail(failure.log.read_text()[-4000:])
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


# Tensors of each rank afterwards, of messages of four numbers: 10… on one, 20… on the other.
MOVED = {
    "all_reduce": ([[30, 32, 34, 36]], [[30, 32, 34, 36]]),
    "all_gather": ([[10, 11, 20, 21], [10, 11]], [[10, 11, 20, 21], [20, 21]]),
    "reduce_scatter": ([[10, 11, 12, 13], [30, 32]], [[20, 21, 22, 23], [34, 36]]),
    "broadcast": ([[10, 11, 12, 13]], [[10, 11, 12, 13]]),
    "all_to_all": ([[10, 11, 12, 13], [10, 11, 20, 21]], [[20, 21, 22, 23], [12, 13, 22, 23]]),
    "send_recv": ([[10, 11, 12, 13], [20, 21, 22, 23]], [[20, 21, 22, 23], [10, 11, 12, 13]]),
}


@pytest.mark.parametrize("op", MOVED)
def test_moved_data(ranks, op):
    assert (ranks[0][op], ranks[1][op]) == MOVED[op]


def test_a_reduce_leaves_the_sum_on_the_first_rank(ranks):
    assert ranks[0]["reduce"] == [[30, 32, 34, 36]]
    assert set(OPS) == {*MOVED, "reduce"}


def test_ranks_agree_on_the_largest(ranks):
    assert ranks[0]["largest"] == ranks[1]["largest"] == [1.0, 5.0]


def test_whole_bytes():
    assert total_bytes(1024, 8, "fp32") == 1024
    assert total_bytes(1024, 3, "bf16") == 1020
    assert total_bytes(1, 8, "fp32") == 32
