"""Copies between host and device, within the device, and within the host.

Every page of host memory is written first, because untouched pages all map to one page of zeros.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .clock import Call
from .point import Point

if TYPE_CHECKING:
    import torch


@contextlib.contextmanager
def prepared(point: Point, device: torch.device) -> Iterator[Call]:
    assert point.message_bytes is not None
    places = {"h2d": "hd", "d2h": "dh", "d2d": "dd", "h2h": "hh"}[point.op]
    source, target = (_bytes(point, place, device) for place in places)
    yield lambda: target.copy_(source, non_blocking=True)


def _bytes(point: Point, place: str, device: torch.device) -> torch.Tensor:
    import torch

    size = point.message_bytes
    if place == "d":
        return torch.ones(size, dtype=torch.uint8, device=device)
    is_pinned = point.memory == "pinned"
    return torch.empty(size, dtype=torch.uint8, pin_memory=is_pinned).fill_(1)
