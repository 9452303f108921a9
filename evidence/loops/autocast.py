"""Parameters in float32, computed in bfloat16 by autocast; two micro-batches to a step."""

import small
import torch

model = small.decoder()
optimizer = small.optimizer_of(model)
given = small.batches(2 * small.STEPS)
for number in range(small.STEPS):
    total = 0.0
    for _ in range(2):
        ids = next(given)
        with torch.autocast(small.DEVICE, torch.bfloat16):
            loss = small.loss_of(model(ids), ids) / 2
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    small.say(number, total)
