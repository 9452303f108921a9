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
    Should it come back, it is waited for longer: the critic of a GAN may step ten times as often as
    the generator.
    """

    def __init__(self) -> None:
        self._taking_part: set[Hashable] = set()
        # After how many steps of all optimizers each stepped last.
        self._seen_at: dict[Hashable, int] = {}
        self._step_count = 0
        self._patience = _PATIENCE
        self._has_changed = False
        self._counts: dict[Hashable, int] = {}
        self._has_new = False
        self._last: frozenset[Hashable] = frozenset()
        self.last_kind: Hashable = None
        self._begun_count = 0

    def optimizer_stepped(self, key: Hashable) -> None:
        self._counts[key] = self._counts.get(key, 0) + 1
        self._step_count += 1
        if key not in self._taking_part:
            missed = self._step_count - self._seen_at.get(key, self._step_count)
            self._patience = max(self._patience, 2 * missed)
            self._has_changed |= bool(self._last)
            self._taking_part.add(key)
            self._has_new = True
        elif self._counts[key] >= self._patience:
            self._taking_part &= self._counts.keys()
        self._seen_at[key] = self._step_count

    # `last_kind` is which optimizers stepped in the step that ended last, and how often.

    def has_in_step(self, key: Hashable) -> bool:
        return key in self._counts

    def forget(self, key: Hashable) -> None:
        """Wait no more for an optimizer: it is gone."""
        self._taking_part.discard(key)
        self._seen_at.pop(key, None)

    @property
    def is_over(self) -> bool:
        """Whether the step is over: the next call for training begins another."""
        return bool(self._counts) and (self._has_new or self._taking_part <= self._counts.keys())

    @property
    def is_partial(self) -> bool:
        """Whether some optimizers have stepped, and others are to step before the step is over."""
        return bool(self._counts) and not self.is_over

    @property
    def number(self) -> int:
        """Number of the step that goes on, or of the next one where it is over."""
        return self._begun_count + (self.is_over and not self._is_part)

    @property
    def _is_part(self) -> bool:
        """Whether the optimizers of this step are new and others than those of the step before."""
        return self._has_new and bool(self._last) and self._last.isdisjoint(self._counts)

    def take_change(self) -> bool:
        """Return whether more optimizers take part than did in steps before; says so once."""
        found, self._has_changed = self._has_changed, False
        return found

    def begin(self) -> bool:
        """Begin a step; return whether that which is over belongs to the one before it.

        It does where other optimizers have stepped in it, which were not known before: then these
        are two parts of one iteration.
        """
        is_part = self._is_part
        self._begun_count += not is_part
        self._last = frozenset(self._counts)
        self.last_kind = frozenset(self._counts.items())
        self._counts.clear()
        self._has_new = False
        return is_part
