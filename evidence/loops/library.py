"""A loop with `tracekit.collect` around it; LOOP_OUT is the run folder."""

import os

import small

import tracekit

model = small.decoder()
optimizer = small.optimizer_of(model)
recorded = tracekit.collect(
    model=model, out=os.environ["LOOP_OUT"], warmup=2, steps=3, profile_steps=2
)
with recorded as step:
    for number, ids in enumerate(step(small.batches())):
        loss = small.loss_of(model(ids), ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        small.say(number, loss)
