"""A loop inside `tracekit.collect`. The word is the backend that compiles the model."""

import sys

import tiny
import torch

import tracekit

model = tiny.decoder()
if sys.argv[1:]:
    model.compile(backend=sys.argv[1])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
with tracekit.collect(model=model, out="run", warmup=1, steps=2, profile_steps=2) as step:
    for number, ids in enumerate(step(tiny.batches())):
        loss = tiny.loss_of(model(ids), ids)
        tiny.step(number, loss, optimizer)
if sys.argv[1:]:
    tiny.tell_compiled()
