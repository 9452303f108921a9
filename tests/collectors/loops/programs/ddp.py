"""DistributedDataParallel; the word `compiled` compiles it too."""

import sys

import tiny
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

tiny.join()
model = DistributedDataParallel(tiny.decoder())
called = torch.compile(model, backend=sys.argv[2]) if "compiled" in sys.argv else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches(seed=1 + distributed.get_rank())):
    loss = tiny.loss_of(called(ids), ids)
    tiny.step(number, loss, optimizer)
if called is not model:
    tiny.tell_compiled()
tiny.leave()
