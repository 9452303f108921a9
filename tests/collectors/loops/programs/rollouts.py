"""Steps that call the model without gradients first; the word says how.

`cached`: in training mode, as GradCache does; `train` and `eval`: they generate what they train on.
"""

import sys

import tiny
import torch

kind = sys.argv[1]
model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches()):
    with torch.no_grad():
        if kind == "cached":
            model(ids)
        else:
            model.train(kind == "train")
            grown = ids[:, :8]
            for _ in range(8):
                grown = torch.cat([grown, model(grown)[:, -1:].argmax(-1)], 1)
            ids = grown
            model.train()
    loss = tiny.loss_of(model(ids), ids)
    with tiny.marked(number):
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    tiny.say(number, loss)
