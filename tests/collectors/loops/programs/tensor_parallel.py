"""Linear layers split over both ranks, which are given the same tokens."""

import tiny
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

distributed.init_process_group("gloo")
mesh = init_device_mesh("cpu", (distributed.get_world_size(),), mesh_dim_names=("tp",))
model = tiny.decoder()
for layer in model.layers:
    parallelize_module(layer, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
tiny.train(model=model, optimizer=optimizer)
tiny.leave()
