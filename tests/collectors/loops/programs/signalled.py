"""A loop that runs until a signal ends it, or for a minute.

Words: a signal and the exit code with which its handler leaves after two seconds that it needs for
a checkpoint; `go-on` instead of the code to count it and go on for five steps; `default` to have no
handler; `ignore`.
"""

import os
import signal
import sys
import time

import tiny
import torch

name, what = sys.argv[1:]
number_of = getattr(signal, name)
seen = []
end_at = None
deadline = time.monotonic() + 60


def tell(text):
    # The signal may come in the middle of a print, which lets no other one in.
    os.write(1, f"{text}\n".encode())


def leave(*_):
    seen.append(name)
    tell(f"{name} number {len(seen)}")
    if len(seen) == 1 and what != "go-on":
        until = time.monotonic() + 2
        while time.monotonic() < until:
            time.sleep(0.05)
        torch.save(model.state_dict(), "checkpoint.pt")
        tell(f"saved after {len(seen)} signals")
        sys.exit(int(what))


if what == "ignore":
    signal.signal(number_of, signal.SIG_IGN)
elif what != "default":
    signal.signal(number_of, leave)
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
