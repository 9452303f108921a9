"""A compiled loop. The word is the mode of torch.compile."""

import sys

import small
import torch

model = small.decoder()
mode = sys.argv[1]
called = torch.compile(model, mode=None if mode == "default" else mode)
optimizer = small.optimizer_of(model)
for number, ids in enumerate(small.batches()):
    torch.compiler.cudagraph_mark_step_begin()
    loss = small.loss_of(called(ids), ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    small.say(number, loss)
