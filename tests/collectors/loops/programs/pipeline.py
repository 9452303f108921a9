"""A pipeline of two stages and two micro-batches with plain sends and receives.

The word `evaluation` adds an evaluation after every third step.
"""

import sys
import time

import tiny
import torch
from torch import distributed, nn

distributed.init_process_group("gloo")
rank = distributed.get_rank()
torch.manual_seed(rank)
stage = nn.Sequential(nn.Linear(tiny.WIDTH, tiny.WIDTH), nn.ReLU())
optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-3)
shape = (tiny.BATCH, tiny.WIDTH)
for number in range(tiny.STEPS):
    total = 0.0
    for _ in range(2):
        if rank == 0:
            with tiny.marked(number):
                hidden = stage(torch.randn(shape))
            distributed.send(hidden.detach(), 1)
            gradient = torch.empty(shape)
            distributed.recv(gradient, 1)
            hidden.backward(gradient)
            total += gradient.sum().item()
        else:
            received = torch.empty(shape)
            with tiny.marked(number):
                distributed.recv(received, 0)
            received.requires_grad_()
            loss = stage(received).square().mean()
            loss.backward()
            distributed.send(received.grad, 0)
            total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    tiny.say(number, total)
    if "evaluation" in sys.argv and number % 3 == 0:
        time.sleep(1)  # the later stage waits for this before its step begins
        stage.eval()
        with torch.no_grad():
            stage(torch.ones(shape))
        stage.train()
tiny.leave()
