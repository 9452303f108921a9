"""A pool worker trains a few steps and then idles while the parent trains."""

import multiprocessing

import tiny
import torch


def train(count):
    torch.set_num_threads(1)
    tiny.train(count, tiny.decoder(8 * tiny.WIDTH))


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.map(train, [2])
        train(10 * tiny.STEPS)
