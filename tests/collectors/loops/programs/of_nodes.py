"""A loop of two ranks that finds its rank as its launcher tells it. Words: the port to meet at."""

import os
import sys

import tiny
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

names = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
rank = next(os.environ[name] for name in names if name in os.environ)
os.environ["LOOP_RANK"] = rank
distributed.init_process_group(
    "gloo", init_method=f"tcp://127.0.0.1:{sys.argv[1]}", rank=int(rank), world_size=2
)
model = DistributedDataParallel(tiny.decoder())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches(seed=1 + int(rank))):
    loss = tiny.loss_of(model(ids), ids)
    with tiny.marked(number):
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    tiny.say(number, loss)
tiny.leave()
