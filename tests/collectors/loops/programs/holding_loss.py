"""A loss holds the model, as those of sentence-transformers do; only the model's mode is set.

It is given a list of dicts, as pairs are. Every third step is followed by an evaluation.
"""

import tiny
import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: list[dict[str, torch.Tensor]]) -> torch.Tensor:
        return sum(tiny.loss_of(self.model(one["input_ids"]), one["input_ids"]) for one in features)


model = tiny.decoder()
loss_of = Loss(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches()):
    model.train()
    loss = loss_of([{"mask": ids > 0, "input_ids": ids}, {"input_ids": ids + 0}])
    with tiny.marked(number):
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    tiny.say(number, loss)
    if number % 3 == 0:
        model.eval()
        with torch.no_grad():
            tiny.tell(f"evaluation {loss_of([{'input_ids': ids}]).item().hex()}")
