"""An Accelerate loop: two micro-batches to a step, bfloat16."""

import small
from accelerate import Accelerator

accelerator = Accelerator(
    gradient_accumulation_steps=2, mixed_precision="bf16", cpu=small.DEVICE == "cpu"
)
model = small.decoder()
model, optimizer = accelerator.prepare(model, small.optimizer_of(model))
total, number = 0.0, 0
for ids in small.batches(2 * small.STEPS):
    with accelerator.accumulate(model):
        loss = small.loss_of(model(ids), ids)
        accelerator.backward(loss)
        total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        small.say(number, total)
        total, number = 0.0, number + 1
accelerator.end_training()
