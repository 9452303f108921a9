"""Finds where the steps of a training loop begin, from its calls and its optimizers' steps."""

from __future__ import annotations

from collections.abc import Hashable

_PATIENCE = 8
"""How often the other optimizers step before one that does not is forgotten."""


class StepFinder:
    """Tells where one step ends and the next begins.

    A step is over when every optimizer has stepped that takes part in one; the next begins where a
    model is called for training. So accumulated gradients, optimizers that step one after the
    other, and the halves of a GAN's iteration make one step. Which optimizers take part is learned:
    one that steps for the first time ends its step, and one that does not step for long is out.
    """

    def __init__(self) -> None:
        self._taking_part: set[Hashable] = set()
        self._counts: dict[Hashable, int] = {}
        self._has_new = False
        self._last: frozenset[Hashable] = frozenset()

    def optimizer_stepped(self, key: Hashable) -> None:
        """Note that an optimizer has taken a step."""
        self._counts[key] = self._counts.get(key, 0) + 1
        if key not in self._taking_part:
            self._taking_part.add(key)
            self._has_new = True
        elif self._counts[key] >= _PATIENCE:
            self._taking_part &= self._counts.keys()

    @property
    def is_over(self) -> bool:
        """Whether the step is over: the next call for training begins another."""
        return bool(self._counts) and (self._has_new or self._taking_part <= self._counts.keys())

    def begin(self) -> bool:
        """Begin a step; return whether that which is over belongs to the one before it.

        It does where other optimizers have stepped in it, which were not known before: then these
        are two parts of one iteration.
        """
        stepped = frozenset(self._counts)
        is_part = self._has_new and bool(self._last) and not (stepped & self._last)
        self._last = stepped
        self._counts.clear()
        self._has_new = False
        return is_part
