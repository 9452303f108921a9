"""A loop that runs until a signal ends it, or for five minutes.

Words: a signal, and the exit code of its handler, which first spends a second on a checkpoint. In
place of the code, `go-on` counts the signal and runs five more steps; `default` sets no handler.
"""

import os
import signal
import sys
import time

import tiny
import torch

name, what = sys.argv[1:]
seen = []
end_at = None
deadline = time.monotonic() + 300


def tell(text):
    # The signal may arrive inside `print`, which is not reentrant.
    os.write(1, f"{text}\n".encode())


def leave(*_):
    seen.append(name)
    tell(f"{name} number {len(seen)}")
    if len(seen) == 1 and what != "go-on":
        time.sleep(1)
        torch.save(model.state_dict(), "checkpoint.pt")
        tell(f"saved after {len(seen)} signals")
        sys.exit(int(what))


if what != "default":
    signal.signal(getattr(signal, name), leave)
model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
number = 0
while end_at is None or number < end_at:
    ids = next(tiny.batches(1, seed=number))
    loss = tiny.loss_of(model(ids), ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    tiny.say(number, loss)
    number += 1
    time.sleep(0.02)
    if seen and end_at is None:
        end_at = number + 5
    if time.monotonic() > deadline:
        sys.exit(99)
print(f"went on after {len(seen)} signals", flush=True)
