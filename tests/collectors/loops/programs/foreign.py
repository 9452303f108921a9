"""An optimizer that is none of torch's, as those of fastai and Keras are."""

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
if sys.argv[1:] == ["told"]:
    import tracekit
for number, ids in enumerate(tiny.batches()):
    loss = tiny.loss_of(model(ids), ids)
    with tiny.marked(number):
        loss.backward()
    optimizer.step()
    if sys.argv[1:] == ["told"]:
        tracekit.step()
    tiny.say(number, loss)
