"""Parameters in float32, computed in bfloat16 by autocast; two micro-batches to a step."""

import tiny
import torch

model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
given = tiny.batches(2 * tiny.STEPS)
for number in range(tiny.STEPS):
    total = 0.0
    for _ in range(2):
        ids = next(given)
        with torch.autocast(tiny.DEVICE, torch.bfloat16):
            loss = tiny.loss_of(model(ids), ids) / 2
        with tiny.marked(number):
            loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    tiny.say(number, total)
