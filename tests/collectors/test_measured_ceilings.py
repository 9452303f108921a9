"""A recorded run of a CPU, held against what was measured on that CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracekit import manifest
from tracekit.manifest import Environment

Cli = Callable[..., Any]

# 2 x 100 x 100 x 100 operations in 100 us.
RATE_FLOP_PER_S = 2e10
POINT = {"family": "gemm", "op": "mm", "m": 100, "n": 100, "k": 100, "median_ns": 100_000.0}


def test_the_steps_of_a_run_have_shares_of_what_its_cpu_can_do(
    cli: Cli, tmp_path: Path, small_model: Path, make_bench: Callable[..., Path]
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    out = tmp_path / "run"
    wanted = ("--seq-len", "32", "--warmup", "1", "--steps", "1", "--repeats", "1", "--opt", "R")
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = cli("collect", "--model", small_model, "--out", out, *wanted, env=one)
    assert done.exit_code == 0, done.stderr
    where = manifest.read(out).environment
    assert (where.thread_count, where.processor is not None) == (1, True)

    def shares(threads: int) -> list[dict[str, Any]]:
        make_bench(
            "run",
            [POINT | {"dtype": dtype} for dtype in ("bf16", "fp32")],
            device="cpu",
            device_name=where.processor,
            thread_count=threads,
        )
        # Of so small a model, whatever is known counts.
        asked = ("mfu", out, "--min-covered-pct", "0", "--format", "json")
        rows: list[dict[str, Any]] = cli("query", *asked).json()
        return rows

    rows = shares(1)
    assert [row["step"] for row in rows]
    for row in rows:
        assert (row["mfu_pct"], row["reason"]) == (None, "the peak of a CPU is not known")
        assert (row["source"], row["ceiling_reason"]) == ("shapes", None)
        assert row["ceiling_flop_per_s"] == pytest.approx(RATE_FLOP_PER_S)
        ideal_ns = 1e9 * row["flops"] / RATE_FLOP_PER_S
        recomputed_ns = 1e9 * row["recompute_flops"] / RATE_FLOP_PER_S
        assert recomputed_ns > 0
        assert row["ceiling_hfu_pct"] == pytest.approx(100 * ideal_ns / row["step_ns"])
        assert row["ceiling_mfu_pct"] == pytest.approx(
            100 * (ideal_ns - recomputed_ns) / row["step_ns"]
        )
    # Neither half nor twice as many threads make a share: nothing is scaled.
    for row in shares(2):
        assert (row["ceiling_mfu_pct"], row["ceiling_hfu_pct"]) == (None, None)
        assert row["ceiling_reason"] == "it was measured with 2 threads, the rank had 1 thread"


def test_ranks_with_unlike_threads_have_no_common_number() -> None:
    from tracekit.collectors.environment import of_ranks

    two = {"host_name": "a", "thread_count": 2}
    assert of_ranks([two, two]) == Environment(host_name="a", thread_count=2)
    assert of_ranks([two, two | {"thread_count": 1}]) == Environment(host_name="a")
    # A rank that did not get so far says nothing.
    assert of_ranks([{}, two]) == Environment(host_name="a", thread_count=2)
    assert of_ranks([]).thread_count is None
