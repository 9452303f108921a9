"""Train a small model on two ranks, each step in several micro-batches.

torchrun --nproc-per-node 2 ddp.py [--micro-batches N] [--no-sync] [--steps N]
"""

import argparse
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--micro-batches", type=int, default=1)
parser.add_argument("--no-sync", action="store_true", help="reduce gradients in the last alone")
parser.add_argument("--steps", type=int, default=60)
options = parser.parse_args()
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential()
for _ in range(4):
    model.extend([nn.Linear(512, 512), nn.GELU()])
trained = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(8, 512)

began = 0.0
for number in range(options.steps):
    if number == 5:  # the first steps allocate buckets
        began = time.perf_counter()
    for micro_batch in range(options.micro_batches):
        waits = options.no_sync and micro_batch < options.micro_batches - 1
        with trained.no_sync() if waits else nullcontext():
            trained(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if dist.get_rank() == 0:
    print(f"{(options.steps - 5) / (time.perf_counter() - began):.1f} steps/s")  # noqa: T201
dist.destroy_process_group()
