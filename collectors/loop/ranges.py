"""The ranges of a loop that is recorded: its step, its phases, the modules of all that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ..calls.beside_dynamo import has_compiled
from ..calls.module_paths import class_name, unwrapped
from ..ranges import ModuleRanges, Phase, Range, step
from ..ranges.attention_parts import AttentionRanges
from .home_thread import HomeThread
from .phases import LoopPhases


class LoopRanges:
    """Ranges of a loop, while they are attached.

    Args:
        models: the models that the loop calls, the one that is trained first; its paths stand
            alone, those of the others begin with the name of their class.
        optimizer: one that is no `torch.optim.Optimizer`, or None.
        home: the thread of the loop.

    `accumulated` holds how many backward passes came before each step of the optimizers.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        optimizer: Any = None,
        home: HomeThread | None = None,
    ) -> None:
        self._trees = [ModuleRanges(models[0])]
        self._names = {class_name(unwrapped(models[0]))}
        for model in models[1:]:
            self._add(model)
        self._parts: list[AttentionRanges] = []
        self._phases = LoopPhases(models[0], optimizer, home)
        self._step: Range | None = None
        self.accumulated: list[int] = []

    @property
    def is_attached(self) -> bool:
        """Whether calls have ranges."""
        return self._phases.is_attached

    def attach(self) -> None:
        """Open the ranges from now on."""
        # Dynamo guards on the attention that a model chooses and on the functions of its file.
        if not self._parts and not has_compiled():
            self._parts = [AttentionRanges(tree.model) for tree in self._trees]
        for parts in self._parts:
            parts.attach()
        for tree in self._trees:
            tree.attach()
        self._phases.attach()

    def detach(self) -> None:
        """Take everything away again."""
        self._phases.detach()
        for tree in self._trees:
            tree.detach()
        for parts in self._parts:
            parts.detach()

    def leave(self) -> None:
        """Take away what a fork has copied; the ranges are those of its parent."""
        self._step = None
        self._phases.detach()

    def forget(self) -> None:
        """Let go of the models; no range comes after it."""
        self._trees.clear()
        self._parts.clear()
        self._phases.forget()

    def begin_step(self, number: int) -> None:
        """Open the range of a step, if ranges are attached."""
        if self.is_attached:
            self._phases.reset()
            self.resume_step(number)

    def resume_step(self, number: int) -> None:
        """Open it again, if an evaluation inside of the step has closed it."""
        if self.is_attached and self._step is None:
            self._step = step(number)
            self._step.__enter__()

    def end_step(self) -> None:
        """Close it, and keep what the step told of its backward passes."""
        self.close_step()
        if self.is_attached:
            self.accumulated += self._phases.accumulated

    def close_step(self) -> None:
        """Close the range of the step; does nothing if none is open."""
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def root_begins(self, module: nn.Module, phase: Phase) -> None:
        """Open the phase of a call from outside of all modules; a new module gets a tree."""
        if self.is_attached:
            if not any(module in known for known in self._trees):
                self._add(module)
                self._trees[-1].attach()
            self._phases.begin(phase)

    def root_ended(self, phase: Phase) -> None:
        """Close it."""
        if self.is_attached:
            self._phases.end(phase)

    def _add(self, module: nn.Module) -> None:
        base = name = class_name(unwrapped(module))
        number = 1
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        self._trees.append(ModuleRanges(module, name=name))
