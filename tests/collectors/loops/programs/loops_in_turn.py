"""Loops one after the other in one process; the first word says which come before the last."""

import gc
import sys
import weakref

import tiny
import torch


def train(model, optimizer, count):
    for number in range(count):
        ids = torch.full((tiny.BATCH, tiny.LENGTH), number % tiny.VOCABULARY)
        loss = tiny.loss_of(model(ids), ids)
        with tiny.marked(number):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tiny.say(number, loss)


kind = sys.argv[1]
if kind == "finder":  # a model and an optimizer of its own, with a schedule, which is a cycle
    other = tiny.decoder(2 * tiny.WIDTH)
    finder = torch.optim.SGD(other.parameters(), lr=1e-4)
    schedule = torch.optim.lr_scheduler.ExponentialLR(finder, 1.1)
    train(other, finder, 5)
    gone = weakref.ref(other)
    del other, finder, schedule
    gc.collect()
elif kind == "same":  # the same model, and the optimizer stays
    model = tiny.decoder()
    finder = torch.optim.SGD(model.parameters(), lr=1e-4)
    train(model, finder, 5)
elif kind == "folds":
    for _ in range(3):
        model = tiny.decoder()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        train(model, optimizer, 5)
if kind != "same":
    model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
train(model, optimizer, tiny.STEPS)
