"""fully_shard on every layer and the model."""

import tiny
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

tiny.join()
mesh = init_device_mesh(tiny.DEVICE, (distributed.get_world_size(),))
model = tiny.decoder()
for layer in model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
tiny.train(model=model, seed=1 + distributed.get_rank())
tiny.leave()
