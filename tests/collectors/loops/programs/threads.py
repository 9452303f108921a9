"""Training on threads of the program; the word says on which."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import tiny
import torch
from torch import nn


class Loop:
    def __init__(self, seed):
        self.batches = torch.Generator().manual_seed(seed)
        self.model = nn.Linear(8, 8)
        with torch.no_grad():
            self.model.weight.fill_(seed / 8)
            self.model.bias.zero_()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.count = 0

    def run(self, count):
        for _ in range(count):
            loss = self.model(torch.randn(4, 8, generator=self.batches)).square().mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.loss = loss.item()
            self.count += 1

    def run_on(self):
        self.run(7)
        time.sleep(600)


def on_threads(*targets):
    threads = [threading.Thread(target=target, args=words) for target, *words in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


loops = [Loop(1), Loop(2)]
kind = sys.argv[1]
if kind == "two":
    on_threads(*((loop.run, 3 * tiny.STEPS) for loop in loops))
elif kind == "moving":
    for _ in range(tiny.STEPS):
        on_threads((loops[0].run, 1))
elif kind == "first":
    pool = ThreadPoolExecutor(1)
    pool.submit(loops[0].run, 1).result()
    loops[0].run(2 * tiny.STEPS)
elif kind == "short":
    on_threads((loops[0].run, 7))
else:
    threading.Thread(target=loops[0].run_on, daemon=True).start()
    while loops[0].count < 7:
        time.sleep(0.01)
for loop in loops:
    if loop.count:
        tiny.tell(f"loss {loop.loss:.7g}")
