"""A loop as every tutorial has it; LOOP_STEPS makes it longer."""

import tiny
import torch

model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches()):
    loss = tiny.loss_of(model(ids), ids)
    with tiny.marked(number):
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    tiny.say(number, loss)
