"""A loop that ends badly. Words: the step in which it ends, from 0, and how."""

import os
import resource
import signal
import sys
from pathlib import Path

import tiny
import torch

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
last, how = int(sys.argv[1]), sys.argv[2]


def end():
    if how == "raise":
        raise ValueError("on purpose")
    if how == "torch-oom":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. On purpose")
    if how == "no-memory":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
        torch.empty(2**32).fill_(1)
    if how == "exit":
        os._exit(3)
    if how == "sys-exit":
        sys.exit(4)
    os.kill(os.getpid(), getattr(signal, how))


model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches()):
    loss = tiny.loss_of(model(ids), ids)
    with tiny.marked(number):
        loss.backward()
    if number == last:
        end()
    optimizer.step()
    optimizer.zero_grad()
    tiny.say(number, loss)
