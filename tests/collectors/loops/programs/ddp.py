"""DistributedDataParallel; the word `compiled` compiles it too."""

import sys

import tiny
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

tiny.join()
model = DistributedDataParallel(tiny.decoder())
called = torch.compile(model, backend=sys.argv[2]) if "compiled" in sys.argv else model
tiny.train(model=called, seed=1 + distributed.get_rank())
if called is not model:
    tiny.tell_compiled()
tiny.leave()
