"""Gradient compression as a hook on two gloo ranks."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracekit.collectors.training.compression import methods

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

RANK_COUNT = 2

WORKER = Path(__file__).with_name("_compression_ranks.py")

# Matrices and vectors of the model in the worker.
MATRICES = {"inner.weight": (32, 24), "outer.weight": (8, 32)}

VECTOR_COUNT = 32 + 32 + 32 + 8

DENSE_COUNT = sum(rows * columns for rows, columns in MATRICES.values()) + VECTOR_COUNT


@pytest.fixture(scope="session")
def by_rank(
    tmp_path_factory: pytest.TempPathFactory, python: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Run everything that needs two ranks once, and return what each rank saw."""
    folder = tmp_path_factory.mktemp("compression")
    logs = [(folder / f"rank{rank}.log").open("w+") for rank in range(RANK_COUNT)]
    command = [python("eager"), str(WORKER)]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(RANK_COUNT), str(folder)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
        )
        for rank, log in enumerate(logs)
    ]
    try:
        exit_codes = [process.wait(timeout=120) for process in processes]
    finally:
        for process, log in zip(processes, logs, strict=True):
            process.kill()
            process.wait()
            log.close()
    texts = "\n".join(Path(log.name).read_text() for log in logs)
    assert exit_codes == [0] * RANK_COUNT, texts
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANK_COUNT)]


@pytest.mark.parametrize("method", methods())
@pytest.mark.parametrize("precision", ["training", "bf16"])
def test_training_converges(by_rank: list[dict[str, Any]], method: str, precision: str) -> None:
    exact = by_rank[0]["training"]["none"]
    run = by_rank[0][precision][method]
    assert exact["last_loss"] < exact["first_loss"] / 50
    assert run["last_loss"] < run["first_loss"] / 25
    assert all(rank[precision][method]["ranks_agree"] for rank in by_rank)


@pytest.mark.parametrize("method", ["topk", "acpsgd", "signsgd"])
def test_vectors_are_averaged_exactly(by_rank: list[dict[str, Any]], method: str) -> None:
    exact, run = by_rank[0]["exact"]["none"], by_rank[0]["exact"][method]
    for name in exact.keys() - MATRICES.keys():
        np.testing.assert_allclose(run[name], exact[name], rtol=1e-6, atol=1e-8)


def test_topk_of_everything_is_plain_ddp(by_rank: list[dict[str, Any]]) -> None:
    exact, run = by_rank[0]["exact"]["none"], by_rank[0]["exact"]["topk"]
    for name in MATRICES:
        np.testing.assert_allclose(run[name], exact[name], rtol=1e-6, atol=1e-8)


def test_acpsgd_gradients_have_the_rank(by_rank: list[dict[str, Any]]) -> None:
    for name in MATRICES:
        for gradient in by_rank[0]["exact"]["acpsgd"][name]:
            assert np.linalg.matrix_rank(np.array(gradient), tol=1e-5) == 2


@pytest.mark.parametrize("method", ["acpsgd", "topk", "signsgd"])
@pytest.mark.parametrize("variant", ["static_graph", "reentrant"])
def test_unusual_passes_give_the_usual_gradients(
    by_rank: list[dict[str, Any]], method: str, variant: str
) -> None:
    """DDP sends late in the first step of a static graph; a checkpoint may nest passes."""
    seen = by_rank[0]["unusual"][method]
    for name, steps in seen["usual"].items():
        # The order of the buckets decides the random start of a low-rank basis.
        if method == "acpsgd" and name in MATRICES:
            continue
        np.testing.assert_allclose(seen[variant][name], steps, rtol=1e-5, atol=1e-7)


def sent_per_step(by_rank: list[dict[str, Any]], method: str) -> tuple[int, int]:
    """Return elements and bytes, which every rank must have counted alike."""
    reports = [rank["training"][method]["report"] for rank in by_rank]
    assert reports[0] == reports[1]
    assert reports[0]["dense_bytes_per_step"] == 4 * DENSE_COUNT
    return reports[0]["sent_element_count_per_step"], reports[0]["sent_bytes_per_step"]


def test_acpsgd_sends_the_mean_of_both_factors(by_rank: list[dict[str, Any]]) -> None:
    count = VECTOR_COUNT + sum(2 * (n + m) for n, m in MATRICES.values()) // 2
    assert sent_per_step(by_rank, "acpsgd") == (count, 4 * count)


def test_powersgd_sends_both_factors(by_rank: list[dict[str, Any]]) -> None:
    count = VECTOR_COUNT + sum(2 * (n + m) for n, m in MATRICES.values())
    assert sent_per_step(by_rank, "powersgd") == (count, 4 * count)


def test_topk_sends_an_index_and_a_value_for_each(by_rank: list[dict[str, Any]]) -> None:
    chosen = [math.ceil(0.1 * n * m) for n, m in MATRICES.values()]
    count, size_bytes = sent_per_step(by_rank, "topk")
    assert count == VECTOR_COUNT + 2 * sum(chosen)
    # Each of the four tensors begins at a multiple of 8 bytes.
    assert size_bytes == 4 * VECTOR_COUNT + sum(2 * math.ceil(4 * k / 8) * 8 for k in chosen)


def test_signsgd_sends_a_bit_for_each(by_rank: list[dict[str, Any]]) -> None:
    _, size_bytes = sent_per_step(by_rank, "signsgd")
    # And a scale for each matrix, which takes 8 bytes with its padding.
    assert size_bytes == 4 * VECTOR_COUNT + sum(n * m // 8 + 8 for n, m in MATRICES.values())


@pytest.mark.parametrize("method", ["acpsgd", "topk", "signsgd"])
def test_a_profile_of_the_thread_shows_the_work(by_rank: list[dict[str, Any]], method: str) -> None:
    ranges = by_rank[0]["ranges"][method]
    collective = "c10d::allreduce_" if method == "acpsgd" else "c10d::_allgather_base_"
    assert collective in ranges
    assert "aten::copy_" in ranges["tk/part/decompress"]
    assert len(ranges["tk/part/compress"]) > 5
