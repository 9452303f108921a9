"""Ends as the word says: with a wait after the last step that is recorded, or with forked children.

The children end as programs do, after the parent's profile.
"""

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
    with tiny.marked(number):
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    tiny.say(number, loss)
if is_waiting:
    time.sleep(2)
else:
    for code in (0, 3):
        child = os.fork()
        if not child:
            sys.exit(code)
        tiny.tell(f"child ended {os.waitpid(child, 0)[1]}")
