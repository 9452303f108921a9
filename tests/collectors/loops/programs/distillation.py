"""A student learns from a teacher of the same class, which runs without gradients."""

import tiny
import torch
from torch.nn import functional

teacher = tiny.decoder(2 * tiny.WIDTH).eval()
student = tiny.decoder()
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
for number, ids in enumerate(tiny.batches()):
    with torch.no_grad():
        wanted = functional.log_softmax(teacher(ids), -1)
    got = functional.log_softmax(student(ids), -1)
    loss = functional.kl_div(got, wanted, reduction="batchmean", log_target=True)
    tiny.step(number, loss, optimizer)
