"""A loop that calls its model outside the training step; the word says how.

`average`: an averaged copy is evaluated after every third step. `holding`: the loss module holds
the model and receives a list of dicts. `cached`: a pass without gradients in training mode precedes
the step, as in GradCache. `train`, `eval`: in that mode the model generates the training tokens.
"""

import sys

import tiny
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

kind = sys.argv[1]


class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features):
        return sum(tiny.loss_of(self.model(one["input_ids"]), one["input_ids"]) for one in features)


@torch.no_grad()
def generated(ids):
    model.train(kind == "train")
    grown = ids[:, :8]
    for _ in range(8):
        grown = torch.cat([grown, model(grown)[:, -1:].argmax(-1)], 1)
    model.train()
    return grown


model = tiny.decoder()
holder = Loss(model) if kind == "holding" else None
average = AveragedModel(model) if kind == "average" else None
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches()):
    if kind in ("train", "eval"):
        ids = generated(ids)
    elif kind == "cached":
        with torch.no_grad():
            model(ids)
    if holder:
        model.train()
        loss = holder([{"mask": ids > 0, "input_ids": ids}, {"input_ids": ids + 0}])
    else:
        loss = tiny.loss_of(model(ids), ids)
    tiny.step(number, loss, optimizer)
    if average:
        average.update_parameters(model)
    if number % 3 == 0 and (holder or average):
        (average or model).eval()
        with torch.no_grad():
            value = average(ids).sum() if average else holder([{"input_ids": ids}])
        tiny.tell(f"evaluation {value.item():.7g}")
