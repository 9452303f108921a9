"""Parameters sharded by hand: gathered before each use of a layer and freed after it.

Between uses a parameter is empty, as in DeepSpeed's ZeRO-3.
"""

import tiny
import torch
from torch import distributed, nn

distributed.init_process_group("gloo")
rank, world = distributed.get_rank(), distributed.get_world_size()
model = tiny.decoder()
shards = {}
shapes = {}


def shard(parameter):
    flat = parameter.detach().flatten()
    flat = torch.cat([flat, flat.new_zeros(-flat.numel() % world)])
    shapes[parameter] = parameter.shape
    shards[parameter] = nn.Parameter(flat.chunk(world)[rank].clone())
    free(parameter)


def free(parameter):
    parameter.data = torch.empty(0)


def gather(module, *_):
    for parameter in module.parameters(recurse=False):
        piece = shards[parameter].detach()
        whole = piece.new_empty(world * piece.numel())
        distributed.all_gather_into_tensor(whole, piece)
        shape = shapes[parameter]
        parameter.data = whole[: shape.numel()].view(shape)


def release(module, *_):
    for parameter in module.parameters(recurse=False):
        free(parameter)


def reduce(parameter):
    flat = parameter.grad.flatten() / world
    flat = torch.cat([flat, flat.new_zeros(-flat.numel() % world)])
    own = torch.empty_like(shards[parameter])
    distributed.reduce_scatter_tensor(own, flat)
    before = shards[parameter].grad
    shards[parameter].grad = own if before is None else before + own
    parameter.grad = None
    free(parameter)


for module in model.modules():
    own = list(module.parameters(recurse=False))
    if own:
        for parameter in own:
            shard(parameter)
            parameter.register_post_accumulate_grad_hook(reduce)
        module.register_forward_pre_hook(gather)
        module.register_forward_hook(release)
        module.register_full_backward_pre_hook(gather)
optimizer = torch.optim.AdamW(shards.values(), lr=1e-3)
tiny.train(model=model, optimizer=optimizer, seed=1 + rank)
tiny.leave()
