"""What was not measured is told as not known, not as 0."""

from __future__ import annotations

from pathlib import Path

from tracekit.collectors.sweep.run import outcome_text
from tracekit.collectors.training.run import summary
from tracekit.manifest import Manifest, RankMemory


def bare(**members: object) -> Manifest:
    return Manifest(
        run_id="a",
        tracekit_version="0",
        created_at="2026-01-01T00:00:00Z",
        stage="pretrain",
        engine="ddp",
        opt="Naive",
        batch_size=2,
        **members,  # type: ignore[arg-type]
    )


def test_a_cell_without_rate_and_memory_has_neither() -> None:
    assert outcome_text(bare()) == "? tokens/s, ? GB, batch size 2"
    known = bare(tokens_per_s_mean=0.4, peak_memory=[RankMemory(0, None, None, 1_500_000_000)])
    assert outcome_text(known) == "0 tokens/s, 1.50 GB, batch size 2"


def test_a_run_whose_memory_nobody_saw_says_so() -> None:
    first, *_ = summary(bare(tokens_per_s_mean=12.0), Path("run"))
    assert first.endswith("12 tokens/s, peak memory not known")
    first, *_ = summary(bare(peak_memory=[RankMemory(0, 2_000_000_000, None, None)]), Path("run"))
    assert first.endswith("? tokens/s, peak 2.00 GB a rank")
