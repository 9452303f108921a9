"""An optimizer that does not derive from torch's, as those of fastai and Keras."""

import sys

import tiny
import torch


class Descent:
    def __init__(self, parameters) -> None:
        self.parameters = [*parameters]

    def step(self) -> None:
        with torch.no_grad():
            for one in self.parameters:
                one.data.sub_(one.grad.data, alpha=0.1)
                one.grad = None


model = tiny.decoder()
optimizer = Descent(model.parameters())
is_told = sys.argv[1:] == ["told"]
if is_told:
    import tracekit
for number, ids in enumerate(tiny.batches()):
    loss = tiny.loss_of(model(ids), ids)
    with tiny.marked(number):
        loss.backward()
    optimizer.step()
    if is_told:
        tracekit.step()
    tiny.say(number, loss)
