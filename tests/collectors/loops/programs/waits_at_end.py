"""A loop that ends with a wait after the last recorded step (`wait`) or with forked children."""

import os
import sys
import time

import tiny
import torch

is_waiting = sys.argv[1] == "wait"
model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches(8 if is_waiting else tiny.STEPS)):
    loss = tiny.loss_of(model(ids), ids)
    tiny.step(number, loss, optimizer)
if is_waiting:
    time.sleep(2)
else:
    for code in (0, 3):
        child = os.fork()
        if not child:
            sys.exit(code)
        tiny.tell(f"child ended {os.waitpid(child, 0)[1]}")
