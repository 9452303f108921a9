"""DeepSpeed's buckets are no larger than the model that they are for."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tracekit.collectors.training.engines import deepspeed  # noqa: E402


def test_a_small_model_gets_small_buckets() -> None:
    model = torch.nn.Linear(10, 10)
    sizes = {"reduce_bucket_size": 110, "allgather_bucket_size": 110}
    assert deepspeed._sizes(model, 2) == sizes
    assert deepspeed._sizes(model, 3).items() > sizes.items()


def test_a_large_one_keeps_the_defaults() -> None:
    with torch.device("meta"):
        model = torch.nn.Linear(30_000, 20_000)
    assert deepspeed._sizes(model, 3) == {}
