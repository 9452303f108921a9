"""A loop as every tutorial has it."""

import small

model = small.decoder()
optimizer = small.optimizer_of(model)
for number, ids in enumerate(small.batches()):
    loss = small.loss_of(model(ids), ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    small.say(number, loss)
