"""A pool worker trains a few steps and then idles while the parent trains."""

import multiprocessing

import tiny
import torch


def train(count):
    torch.set_num_threads(1)
    model = tiny.decoder(8 * tiny.WIDTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for number, ids in enumerate(tiny.batches(count)):
        loss = tiny.loss_of(model(ids), ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tiny.say(number, loss)


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.map(train, [2])
        train(10 * tiny.STEPS)
