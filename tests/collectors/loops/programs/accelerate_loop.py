"""An Accelerate loop: two micro-batches to a step, bfloat16."""

import tiny
import torch
from accelerate import Accelerator

accelerator = Accelerator(
    gradient_accumulation_steps=2, mixed_precision="bf16", cpu=tiny.DEVICE == "cpu"
)
model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = accelerator.prepare(model, optimizer)
total, number = 0.0, 0
for ids in tiny.batches(2 * tiny.STEPS):
    with accelerator.accumulate(model):
        loss = tiny.loss_of(model(ids), ids)
        with tiny.marked(number):
            accelerator.backward(loss)
        total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        tiny.say(number, total)
        total, number = 0.0, number + 1
accelerator.end_training()
