"""A loop that leaves a process running, whose id it prints."""

import subprocess

import tiny
import torch

model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
child = subprocess.Popen(
    ["sleep", "300"],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
for number, ids in enumerate(tiny.batches()):
    loss = tiny.loss_of(model(ids), ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    tiny.say(number, loss)
print(f"child {child.pid}", flush=True)
