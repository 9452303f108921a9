"""An optimizer that does not derive from torch's, like the optimizers of fastai and Keras."""

import sys

import tiny
import torch


class Descent:
    def __init__(self, parameters):
        self.parameters = [*parameters]

    def step(self):
        with torch.no_grad():
            for one in self.parameters:
                one.data.sub_(one.grad.data, alpha=0.1)
                one.grad = None

    def zero_grad(self):
        """Leave the gradients to `step`."""


is_reported = sys.argv[1:] == ["reported"]
if is_reported:
    import tracekit
model = tiny.decoder()
optimizer = Descent(model.parameters())
tiny.train(model=model, optimizer=optimizer, after=lambda _: is_reported and tracekit.step())
