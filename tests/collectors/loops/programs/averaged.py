"""An average of the model is evaluated after every third step, in evaluation mode."""

import tiny
import torch
from torch.optim.swa_utils import AveragedModel

model = tiny.decoder()
average = AveragedModel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches()):
    loss = tiny.loss_of(model(ids), ids)
    with tiny.marked(number):
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    average.update_parameters(model)
    tiny.say(number, loss)
    if number % 3 == 0:
        average.eval()
        with torch.no_grad():
            tiny.tell(f"evaluation {average(ids).sum().item().hex()}")
