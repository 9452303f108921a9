"""Several loops in one process; the first word says which loops precede the last one."""

import gc
import os
import sys
import time
import weakref

import tiny
import torch
from torch import distributed


def train(model, optimizer, count):
    for number in range(count):
        ids = torch.full((tiny.BATCH, tiny.LENGTH), number % tiny.VOCABULARY)
        loss = tiny.loss_of(model(ids), ids)
        with tiny.marked(number):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if distributed.is_initialized():
            distributed.all_reduce(torch.ones(1))
        tiny.say(number, loss)
        if kind == "trial":
            time.sleep(0.02)  # until the recording is in its folder


kind = sys.argv[1]
if "RANK" in os.environ:
    distributed.init_process_group("gloo")
if kind == "finder":  # separate model and optimizer with a scheduler, which is a reference cycle
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
elif "fold" in kind:
    for _ in range(1 if "one" in kind else 3):
        model = tiny.decoder()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        train(model, optimizer, 5 if kind == "folds" else 6)
elif kind in ("trial", "even", "short"):  # long enough to be recorded
    model = tiny.decoder(2 * tiny.WIDTH)
    count = {"trial": 9, "even": tiny.STEPS, "short": 6}[kind]
    train(model, torch.optim.AdamW(model.parameters(), lr=1e-3), count)
    gc.collect()
if kind != "same":
    model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
lengths = {"trial": 60, "folds and more": 20, "one fold and more": 20, "short folds": 6, "short": 3}
train(model, optimizer, lengths.get(kind, tiny.STEPS))
if distributed.is_initialized():
    tiny.leave()
