"""The ranks of `test_collectives.py`: each calls each collective once on different numbers."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from tracekit.collectors.bench import collectives

ELEMENTS = 4

folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
found = {}
for op in collectives.OPS:
    tensors = []

    def numbered(count, tensors=tensors):
        """Return 10, 11, 12, … on rank 0 and 20, 21, 22, … on rank 1."""
        tensors.append(10.0 * (rank + 1) + torch.arange(count, dtype=torch.float32))
        return tensors[-1]

    collectives.call_of(op, numbered, ELEMENTS, ELEMENTS // 2)()
    found[op] = [tensor.tolist() for tensor in tensors]
group = collectives.Group(torch.device("cpu"))
found["largest"] = list(group.largest((float(rank), 5.0 - rank)))
(folder / f"{rank}.json").write_text(json.dumps(found))
dist.destroy_process_group()
