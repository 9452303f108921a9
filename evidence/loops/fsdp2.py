"""fully_shard on every layer and the model."""

import os

import small
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

if small.DEVICE == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
distributed.init_process_group("nccl" if small.DEVICE == "cuda" else "gloo")
mesh = init_device_mesh(small.DEVICE, (distributed.get_world_size(),))
model = small.decoder()
for layer in model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = small.optimizer_of(model)
for number, ids in enumerate(small.batches()):
    loss = small.loss_of(model(ids), ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    small.say(number, loss)
distributed.barrier()
distributed.destroy_process_group()
