"""What `test_compression.py` runs on two ranks: `python _compression_ranks.py RANK COUNT FOLDER`.

Every rank writes what it saw into FOLDER/rank<N>.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from tracekit.collectors.training.compression import install, methods

STEPS = 60


class Regression(nn.Module):
    """Two layers and a norm: matrices, vectors, and a bucket of each."""

    def __init__(self, *, is_recomputed: bool = False, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.inner = nn.Linear(24, 32, dtype=dtype)
        self.norm = nn.LayerNorm(32, dtype=dtype)
        self.outer = nn.Linear(32, 8, dtype=dtype)
        self._is_recomputed = is_recomputed

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self._is_recomputed:
            return self.outer(checkpoint(self._hidden, inputs, use_reentrant=True))
        return self.outer(self._hidden(inputs))

    def _hidden(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.tanh(self.inner(inputs)))


def hooked(method: str | None, **settings: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = Regression(
        is_recomputed=settings.pop("is_recomputed", False),
        dtype=settings.pop("dtype", torch.float32),
    )
    static = settings.pop("static_graph", False)
    ddp_model = DistributedDataParallel(model, bucket_cap_mb=0.001, static_graph=static)
    return ddp_model, None if method is None else install(ddp_model, method, **settings)


def batch(rank: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Return data of a rank's own; the targets are linear in the inputs."""
    generator = torch.Generator().manual_seed(100 + rank)
    inputs = torch.randn(32, 24, generator=generator)
    truth = torch.randn(24, 8, generator=torch.Generator().manual_seed(5)) / 5
    return inputs.to(dtype).requires_grad_(), (inputs @ truth).to(dtype)


def loss_of(ddp_model: Any, rank: int) -> torch.Tensor:
    inputs, targets = batch(rank, next(ddp_model.parameters()).dtype)
    return nn.functional.mse_loss(ddp_model(inputs), targets)


def mean_over_ranks(value: torch.Tensor) -> float:
    value = value.detach().to(torch.float64).clone()
    dist.all_reduce(value)
    return float(value) / dist.get_world_size()


def training(rank_: int, method: str | None, **settings: Any) -> dict[str, Any]:
    """Train, and return the mean loss of the first and last step and whether the ranks agree."""
    ddp_model, compression = hooked(method, **settings)
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.2)
    losses = []
    for _ in range(STEPS):
        loss = loss_of(ddp_model, rank_)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(mean_over_ranks(loss))
    flat = torch.cat([p.detach().reshape(-1) for p in ddp_model.parameters()])
    others = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(others, flat)
    return {
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "ranks_agree": all(torch.equal(flat, other) for other in others),
        "report": None if compression is None else compression.report(),
    }


def gradients(rank_: int, method: str | None, step_count: int, **settings: Any) -> dict[str, Any]:
    """Return the gradients of some steps with unchanged weights, by parameter."""
    ddp_model, _ = hooked(method, **settings)
    steps: dict[str, Any] = {name: [] for name, _ in ddp_model.module.named_parameters()}
    for _ in range(step_count):
        ddp_model.zero_grad()
        loss_of(ddp_model, rank_).backward()
        for name, parameter in ddp_model.module.named_parameters():
            steps[name].append(parameter.grad.tolist())
    return steps


def profiled_ranges(rank: int, method: str) -> dict[str, list[str]]:
    """Return what a profile of one step shows on the calling thread, by range."""
    ddp_model, _ = hooked(method)
    for _ in range(3):
        loss_of(ddp_model, rank).backward()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        loss_of(ddp_model, rank).backward()
    seen: dict[str, list[str]] = {}
    for event in profile.events():
        if event.name.startswith("tk/part/"):
            seen.setdefault(event.name, []).extend(child.name for child in event.cpu_children)
        elif event.name.startswith("c10d::"):
            seen.setdefault(event.name, [])
    return seen


def main(rank: int, rank_count: int, folder: Path) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=rank_count
    )
    result: dict[str, Any] = {"training": {}, "bf16": {}, "exact": {}, "unusual": {}, "ranges": {}}
    result["training"]["none"] = training(rank, None)
    result["exact"]["none"] = gradients(rank, None, 2)
    result["exact"]["topk"] = gradients(rank, "topk", 2, density=1.0)
    result["exact"]["acpsgd"] = gradients(rank, "acpsgd", 2, rank=2)
    result["exact"]["signsgd"] = gradients(rank, "signsgd", 2)
    for method in methods():
        settings = {"rank": 2, "density": 0.1}
        result["training"][method] = training(rank, method, **settings)
        result["bf16"][method] = training(rank, method, dtype=torch.bfloat16, **settings)
        result["ranges"][method] = profiled_ranges(rank, method)
    for method in ("acpsgd", "topk", "signsgd"):
        result["unusual"][method] = {
            "static_graph": gradients(rank, method, 3, static_graph=True),
            "reentrant": gradients(rank, method, 3, is_recomputed=True),
            "usual": gradients(rank, method, 3),
        }
    (folder / f"rank{rank}.json").write_text(json.dumps(result), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
