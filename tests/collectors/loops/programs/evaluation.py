"""Every third step is followed by an evaluation, every other one of them with gradients on."""

import tiny
import torch

model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
held_out = list(tiny.batches(3, seed=2))
for number, ids in enumerate(tiny.batches()):
    loss = tiny.loss_of(model(ids), ids)
    tiny.step(number, loss, optimizer)
    if number % 3 == 0:
        model.eval()
        with torch.set_grad_enabled(number % 2 == 1):
            total = sum(tiny.loss_of(model(other), other).item() for other in held_out)
        model.train()
        tiny.tell(f"evaluation {total:.7g}")
