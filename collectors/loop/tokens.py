"""Counts the tokens that a model is given to train on, where it is given tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch


class TokenCounter:
    """Counts between `begin` and `end`; the steps that are dropped do not count."""

    def __init__(self) -> None:
        self.total = 0
        self.batch_size: int | None = None
        self.sequence_length: int | None = None
        self._in_step = 0
        self._is_counting = False
        self._counted: int | None = None

    def begin(self) -> None:
        """Count from now on."""
        self.total = self._in_step = 0
        self._is_counting = True
        self._counted = None

    def end(self) -> None:
        """Count no more."""
        self._is_counting = False

    def count(self, module: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Count those of one call for training.

        Where a loop calls the parts of a model, the first that is given tokens counts them: others
        are given the same again, or their positions.
        """
        if not self._is_counting:
            return
        ids = next(_token_ids((kwargs, *args)), None)
        if ids is not None and self._counted in (None, id(module)):
            self._counted = id(module)
            self._in_step += ids.numel()
            self.batch_size, self.sequence_length = ids.shape

    def keep_step(self) -> None:
        """Let the tokens of the step that ends count."""
        self.total += self._in_step
        self._in_step = 0

    def drop_step(self) -> None:
        """Forget the tokens of the step that ends."""
        self._in_step = 0


def _token_ids(values: tuple[object, ...]) -> Iterator[torch.Tensor]:
    """Yield what looks like token ids: `input_ids` of a mapping, or a matrix of integers."""
    for value in values:
        if isinstance(value, Mapping):
            named = value.get("input_ids")
            if _is_token_ids(named):
                yield named
        elif _is_token_ids(value):
            yield value


def _is_token_ids(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.ndim == 2
        and value.dtype in (torch.int32, torch.int64)
    )
