"""What the loops share: a small decoder, its batches, and the lines that a run prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

STEPS = int(os.environ.get("LOOP_STEPS", "14"))
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH = 512 if DEVICE == "cuda" else 64
VOCABULARY = 256
BATCH, LENGTH = 2, 64


class Layer(nn.Module):
    """Attention and an MLP, each around a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the hidden states after this layer."""
        batch, length, width = hidden.shape
        heads = self.qkv(self.norm(hidden)).view(batch, length, 3, 4, width // 4)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return hidden + self.down(functional.silu(self.up(self.norm(hidden))))


class Decoder(nn.Module):
    """A decoder of two layers."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        hidden = self.embed(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(self.norm(hidden))


def decoder() -> Decoder:
    """Return the same decoder every time, on the device."""
    torch.manual_seed(0)
    return Decoder().to(DEVICE)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def loss_of(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return the loss of the next tokens."""
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def batches(count: int = STEPS, device: str = DEVICE) -> Iterator[torch.Tensor]:
    """Yield the same batches every time."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        yield torch.randint(0, VOCABULARY, (BATCH, LENGTH), generator=generator).to(device)


def llama() -> Any:
    """Return a small Llama with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=WIDTH,
            intermediate_size=2 * WIDTH,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            vocab_size=VOCABULARY,
            max_position_embeddings=128,
        )
    )


def say(number: int, loss: torch.Tensor | float) -> None:
    """Print a step."""
    value = loss.item() if isinstance(loss, torch.Tensor) else loss
    sys.stdout.write(f"step {number} loss {value:.6f}\n")
    sys.stdout.flush()
