"""Gradient compression as a hook on two gloo ranks."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from tracekit.collectors.training.compression import methods

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.nightly("GC:powersgd is trained on two ranks in the gate")
RANK_COUNT = 2

WORKER = Path(__file__).with_name("_compression_ranks.py")

# Matrices and vectors of the model in the worker.
MATRICES = {"inner.weight": (32, 24), "outer.weight": (8, 32)}

VECTOR_COUNT = 32 + 32 + 32 + 8

DENSE_COUNT = sum(rows * columns for rows, columns in MATRICES.values()) + VECTOR_COUNT


@pytest.fixture(scope="module")
def by_rank(tmp_path_factory):
    """Run two ranks once, and return the results of each."""
    folder = tmp_path_factory.mktemp("compression")
    words = [sys.executable, str(WORKER)]
    processes = [
        subprocess.Popen([*words, str(rank), str(RANK_COUNT), str(folder)])
        for rank in range(RANK_COUNT)
    ]
    assert [process.wait(timeout=600) for process in processes] == [0] * RANK_COUNT
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANK_COUNT)]


@pytest.mark.parametrize("method", methods())
def test_training_converges(by_rank, method):
    first, last = (by_rank[0]["training"][method]["losses"][at] for at in (0, 1))
    assert last < first / 20
    assert all(rank["training"][method]["ranks_agree"] for rank in by_rank)


def test_gradients(by_rank):
    """Vectors are averaged exactly, as are matrices by a Top-k of everything."""
    exact = by_rank[0]["exact"]["none"]
    for method in ("topk", "acpsgd", "signsgd"):
        run = by_rank[0]["exact"][method]
        for name in exact if method == "topk" else exact.keys() - MATRICES.keys():
            np.testing.assert_allclose(run[name], exact[name], rtol=1e-6, atol=1e-8)
    for name in MATRICES:
        for gradient in by_rank[0]["exact"]["acpsgd"][name]:
            assert np.linalg.matrix_rank(np.array(gradient), tol=1e-5) == 2


@pytest.mark.parametrize("method", ["acpsgd", "topk", "signsgd"])
@pytest.mark.parametrize("variant", ["static_graph", "reentrant"])
def test_unusual_passes_give_the_usual_gradients(by_rank, method, variant):
    """DDP sends late in the first step of a static graph; a checkpoint may nest passes."""
    seen = by_rank[0]["unusual"][method]
    for name, steps in seen["usual"].items():
        # The order of the buckets decides the random start of a low-rank basis.
        if method == "acpsgd" and name in MATRICES:
            continue
        np.testing.assert_allclose(seen[variant][name], steps, rtol=1e-5, atol=1e-7)


# Elements of 4 bytes, and bytes with padding: each tensor begins at a multiple of 8.
CHOSEN = [math.ceil(0.1 * n * m) for n, m in MATRICES.values()]
FACTORS = sum(2 * (n + m) for n, m in MATRICES.values())
SENT_BYTES = {
    "acpsgd": 4 * (VECTOR_COUNT + FACTORS // 2),  # the mean of both factors
    "powersgd": 4 * (VECTOR_COUNT + FACTORS),
    "topk": 4 * VECTOR_COUNT + sum(2 * math.ceil(4 * k / 8) * 8 for k in CHOSEN),
    "signsgd": 4 * VECTOR_COUNT + sum(n * m // 8 + 8 for n, m in MATRICES.values()),
}


@pytest.mark.parametrize("method", SENT_BYTES)
def test_the_bytes_sent_per_step(by_rank, method):
    reports = [rank["training"][method]["report"] for rank in by_rank]
    assert reports[0] == reports[1]
    assert reports[0]["dense_bytes_per_step"] == 4 * DENSE_COUNT
    assert reports[0]["sent_bytes_per_step"] == SENT_BYTES[method]
    if method == "topk":
        assert reports[0]["sent_element_count_per_step"] == VECTOR_COUNT + 2 * sum(CHOSEN)


@pytest.mark.parametrize("method", ["acpsgd", "topk", "signsgd"])
def test_a_profile_of_the_thread_shows_the_work(by_rank, method):
    ranges = by_rank[0]["ranges"][method]
    collective = "c10d::allreduce_" if method == "acpsgd" else "c10d::_allgather_base_"
    assert collective in ranges
    assert "aten::copy_" in ranges["tk/part/decompress"]
    assert len(ranges["tk/part/compress"]) > 5
