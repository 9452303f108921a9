"""Counts the tokens that a model is given to train on, where it is given tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


class TokenCounter:
    """Counts between `begin` and `end`; the steps that are dropped do not count."""

    def __init__(self) -> None:
        self.total = 0
        self.batch_size: int | None = None
        self.sequence_length: int | None = None
        self._in_step = 0
        self._is_counting = False
        self._counted: int | None = None
        self._is_batch_first: bool | None = None

    def begin(self) -> None:
        """Count from now on."""
        self.total = self._in_step = 0
        self._is_counting = True
        self._counted = None

    def end(self) -> None:
        """Count no more."""
        self._is_counting = False

    def count(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Count those of one call for training.

        Where a loop calls the parts of a model, the first that is given tokens counts them: others
        are given the same again, or their positions.
        """
        # Asked once, before steps are timed: it looks at every module.
        if self._is_batch_first is None:
            self._is_batch_first = _is_batch_first(module)
        if not self._is_counting:
            return
        ids = token_ids(args, kwargs)
        if ids is not None and self._counted in (None, id(module)):
            self._counted = id(module)
            self._in_step += ids.numel()
            if self._is_batch_first:
                self.batch_size, self.sequence_length = ids.shape

    def keep_step(self) -> None:
        """Let the tokens of the step that ends count."""
        self.total += self._in_step
        self._in_step = 0

    def drop_step(self) -> None:
        """Forget the tokens of the step that ends."""
        self._in_step = 0


def token_ids(args: tuple[object, ...], kwargs: Mapping[str, object]) -> torch.Tensor | None:
    """Return what looks like token ids: `input_ids`, or a matrix of integers given first.

    One that is given later may be anything: labels beside pictures, the edges of a graph.
    """
    for value in (kwargs, *args):
        named = value.get("input_ids") if isinstance(value, Mapping) else value
        if isinstance(named, torch.Tensor):
            is_ids = named.ndim == 2 and named.dtype in (torch.int32, torch.int64)
            return named if is_ids else None
    return None


def _is_batch_first(module: nn.Module) -> bool:
    """Tell whether the batch is the first dimension of what a model is given.

    Torch's own recurrent and attention modules have it second unless told otherwise; then no shape
    tells which is which.
    """
    return all(getattr(inner, "batch_first", True) for inner in module.modules())
