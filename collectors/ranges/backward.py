"""Which backward range may lie inside of which, and when a backward pass is over."""

from __future__ import annotations

from collections.abc import Callable

import torch

# A name without a promise, which DDP and FSDP rest on too.
_engine = getattr(torch.autograd.Variable, "_execution_engine", None)


class Task:
    """One run of the autograd engine."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


class Pass:
    """The way of the gradients back through one call of a module."""

    __slots__ = ("name", "path", "prefix", "task")

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.prefix = f"{path}."
        self.name = name
        self.task: Task | None = None

    @property
    def is_over(self) -> bool:
        """Whether the engine has ended the run that this belongs to."""
        return self.task is not None and self.task.is_over

    def holds(self, other: Pass) -> bool:
        """Tell whether the range of another call may lie inside of this one's."""
        return not self.is_over and other.path.startswith(self.prefix)


class BackwardTasks:
    """The runs of the autograd engine that this thread takes part in, by their numbers."""

    def __init__(self) -> None:
        self._tasks: dict[int, Task] = {}

    def current(self, number: int, at_end: Callable[[], None]) -> Task:
        """Return the run of this number; at its end, `at_end` is called."""
        task = self._tasks.get(number)
        if task is None:
            task = self._tasks[number] = Task()
            ended = task

            def end() -> None:
                ended.is_over = True
                self._tasks.pop(number, None)
                at_end()

            if _engine is not None and number != -1:
                _engine.queue_callback(end)
        return task
