"""Prints whether tracekit is in `sys.modules`, before and after the program imports it."""

import sys


def look(when: object) -> None:
    names = {name.partition(".")[0] for name in sys.modules}
    print(when, "tracekit" in names)


look("at the start")
import tiny  # noqa: E402
import torch  # noqa: E402

look("with torch")
model = tiny.decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches()):
    loss = tiny.loss_of(model(ids), ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    tiny.say(number, loss)
    if number % 6 == 5:
        look(number)
import tracekit.errors  # noqa: E402

look("at the end")
print(sys.modules["tracekit"] is tracekit, tracekit.errors.UsageError is tracekit.UsageError)
