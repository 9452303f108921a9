"""fully_shard on every layer and the model."""

import tiny
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

tiny.join()
mesh = init_device_mesh(tiny.DEVICE, (distributed.get_world_size(),))
model = tiny.decoder()
for layer in model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches(seed=1 + distributed.get_rank())):
    loss = tiny.loss_of(model(ids), ids)
    tiny.step(number, loss, optimizer)
tiny.leave()
