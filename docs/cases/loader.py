"""Train a small model on lines from storage that takes 2 ms to answer, as a disk far away does.

python loader.py [--workers N] [--steps N]
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--steps", type=int, default=60)
options = parser.parse_args()
torch.set_num_threads(1)
torch.manual_seed(0)
WORDS, LENGTH, WIDTH = 1000, 64, 128


class Lines(Dataset[torch.Tensor]):
    """Each takes 2 ms."""

    def __len__(self) -> int:
        return 16 * options.steps

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.002)
        return torch.arange(index, index + LENGTH) % WORDS


model = nn.Sequential(
    nn.Embedding(WORDS, WIDTH),
    nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True),
    nn.Linear(WIDTH, WORDS),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
began = 0.0
for number, ids in enumerate(DataLoader(Lines(), batch_size=16, num_workers=options.workers)):
    if number == 5:  # workers have started and memory is allocated
        began = time.perf_counter()
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"{(options.steps - 5) / (time.perf_counter() - began):.1f} steps/s")  # noqa: T201
