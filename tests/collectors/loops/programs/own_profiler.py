"""A loop that profiles itself. Words: `scheduled`, or the first and last profiled step from 0."""

import sys

import tiny
import torch
from torch.profiler import ProfilerActivity, profile, schedule

model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def train(number, ids):
    loss = tiny.loss_of(model(ids), ids)
    tiny.step(number, loss, optimizer)


def write(profiler):
    profiler.export_chrome_trace("own_trace.json")


if sys.argv[1] == "scheduled":
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=3, warmup=1, active=3, repeat=1),
        on_trace_ready=write,
    ) as profiler:
        for number, ids in enumerate(tiny.batches()):
            train(number, ids)
            profiler.step()
else:
    first, last = map(int, sys.argv[1:])
    profiler = profile(activities=[ProfilerActivity.CPU])
    for number, ids in enumerate(tiny.batches()):
        if number == first:
            profiler.start()
        train(number, ids)
        if number == last:
            profiler.stop()
            write(profiler)
