"""The ranks of `test_compression_hooks.py`: `python _compression_ranks.py RANK COUNT FOLDER`."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from tracekit.collectors.training.compression import install, methods

SETTINGS = {"rank": 2, "density": 0.1}


class Regression(nn.Module):
    def __init__(self, *, is_recomputed=False):
        super().__init__()
        self.inner = nn.Linear(24, 32)
        self.norm = nn.LayerNorm(32)
        self.outer = nn.Linear(32, 8)
        self._is_recomputed = is_recomputed

    def forward(self, inputs):
        if self._is_recomputed:
            return self.outer(checkpoint(self._hidden, inputs, use_reentrant=True))
        return self.outer(self._hidden(inputs))

    def _hidden(self, inputs):
        return self.norm(torch.tanh(self.inner(inputs)))


def hooked(method, **settings):
    torch.manual_seed(0)
    model = Regression(is_recomputed=settings.pop("is_recomputed", False))
    static = settings.pop("static_graph", False)
    ddp_model = DistributedDataParallel(model, bucket_cap_mb=0.001, static_graph=static)
    return ddp_model, None if method is None else install(ddp_model, method, **settings)


def loss_of(ddp_model, rank):
    inputs = torch.randn(32, 24, generator=torch.Generator().manual_seed(100 + rank))
    truth = torch.randn(24, 8, generator=torch.Generator().manual_seed(5)) / 5
    return nn.functional.mse_loss(ddp_model(inputs.requires_grad_()), inputs @ truth)


def training(rank, method):
    ddp_model, compression = hooked(method, **SETTINGS)
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.2)
    losses = []
    for _ in range(60):
        loss = loss_of(ddp_model, rank)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    flat = torch.cat([p.detach().reshape(-1) for p in ddp_model.parameters()])
    others = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(others, flat)
    is_same = all(torch.equal(flat, other) for other in others)
    report = None if compression is None else compression.report()
    return {"losses": [losses[0], losses[-1]], "ranks_agree": is_same, "report": report}


def gradients(place, method, step_count, **settings):
    ddp_model, _ = hooked(method, **settings)
    steps = {name: [] for name, _ in ddp_model.module.named_parameters()}
    for _ in range(step_count):
        ddp_model.zero_grad()
        loss_of(ddp_model, place).backward()
        for name, parameter in ddp_model.module.named_parameters():
            steps[name].append(parameter.grad.tolist())
    return steps


def profiled_ranges(rank, method):
    ddp_model, _ = hooked(method)
    for _ in range(3):
        loss_of(ddp_model, rank).backward()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        loss_of(ddp_model, rank).backward()
    seen = {}
    for event in profile.events():
        if event.name.startswith(("tk/part/", "c10d::")):
            seen.setdefault(event.name, []).extend(child.name for child in event.cpu_children)
    return seen


def main(rank, rank_count, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=rank_count
    )
    ours = ("acpsgd", "topk", "signsgd")
    result = {
        "training": {method: training(rank, method) for method in methods()},
        "exact": {
            "none": gradients(rank, None, 2),
            "topk": gradients(rank, "topk", 2, density=1.0),
            "acpsgd": gradients(rank, "acpsgd", 2, rank=2),
            "signsgd": gradients(rank, "signsgd", 2),
        },
        "unusual": {
            method: {
                "static_graph": gradients(rank, method, 3, static_graph=True),
                "reentrant": gradients(rank, method, 3, is_recomputed=True),
                "usual": gradients(rank, method, 3),
            }
            for method in ours
        },
        "ranges": {method: profiled_ranges(rank, method) for method in ours},
    }
    (folder / f"rank{rank}.json").write_text(json.dumps(result), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
