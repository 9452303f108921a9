"""DistributedDataParallel, with as many ranks as the environment says."""

import os

import small
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

if small.DEVICE == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
distributed.init_process_group("nccl" if small.DEVICE == "cuda" else "gloo")
model = DistributedDataParallel(small.decoder())
optimizer = small.optimizer_of(model)
for number, ids in enumerate(small.batches()):
    loss = small.loss_of(model(ids), ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    small.say(number, loss)
distributed.barrier()
distributed.destroy_process_group()
