"""The ranges that are open on each thread, and the names of all but those of modules.

The names are a contract with the analyses, and people read them in Perfetto and Nsight too:
`tk/step/<n>`, `tk/phase/<name>`, `tk/part/<name>` and those of `modules`. Each range is a
`record_function`, which only costs something while a profiler records, and an NVTX range where the
nvtx package is installed (silent without CUDA and without Nsight).

**Threads.** Open ranges are kept per thread, and whatever closes one closes what was left open
inside of it. So every range ends, on its own thread and in the right order, under exceptions, the
early stop of non-reentrant checkpoints, and Ctrl-C.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, Self

import torch
from torch.autograd import profiler

try:
    import nvtx
except ImportError:
    nvtx = None

Phase = Literal[
    "forward",
    "backward",
    "optimizer",
    "evaluation",
    "generation",
    "data",
    "prefill",
    "decode",
    "mixed",
]

# A name without a promise, which DDP and FSDP rest on too.
_engine = getattr(torch.autograd.Variable, "_execution_engine", None)
# Names without a promise. Without the first two a range is recorded whether or not a profiler runs,
# which costs a few µs; without the third, recomputation counts as forward.
_is_thread_profiled: Callable[[], bool] = getattr(torch.autograd, "_profiler_enabled", lambda: True)
_is_process_profiled = "_is_profiler_enabled"
graph_task_id: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)


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


class OpenRange:
    """A range that is open: whose it is, and what ends it."""

    __slots__ = ("first", "is_marked", "owner", "record")

    def __init__(self, owner: object, name: str) -> None:
        self.owner = owner
        # Of a call of a module, the input whose gradient ends the backward range.
        self.first: torch.Tensor | None = None
        self.record = None
        self.is_marked = nvtx is not None
        if self.is_marked:
            nvtx.push_range(name)
        # A profiler of all threads is not enabled on any of them, one of C++ only on threads.
        if getattr(profiler, _is_process_profiled, True) or _is_thread_profiled():
            self.record = profiler.record_function(name)
            self.record.__enter__()

    def close(self) -> None:
        """End the range, which must be the innermost of its thread."""
        if self.record is not None:
            self.record.__exit__(None, None, None)
        if self.is_marked:
            nvtx.pop_range()


class _Thread(threading.local):
    """What is open on this thread, outermost first."""

    def __init__(self) -> None:
        self.open: list[OpenRange] = []
        self.tasks = BackwardTasks()


this_thread = _Thread()


def open_count() -> int:
    return len(this_thread.open)


def is_backward() -> bool:
    """Tell whether the autograd engine is running a backward pass on this thread."""
    return graph_task_id() != -1


class Range:
    """A range as a context manager; it can be entered again after it was left."""

    __slots__ = ("_depths", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._depths: list[int] = []

    def __enter__(self) -> Self:
        self._depths.append(open_range(self, self.name))
        return self

    def __exit__(self, *exc_info: object) -> None:
        depth = self._depths.pop()
        stack = this_thread.open
        # One around it may have closed it already.
        if depth < len(stack) and stack[depth].owner is self:
            close_down_to(depth)


def step(number: int, *, is_anew: bool = False) -> Range:
    """Return the range of the step of this number; `is_anew` if what was marked before is none."""
    return Range(f"tk/step/{number}{' anew' if is_anew else ''}")


def step_end(number: int, passed_ns: int) -> Range:
    """Return the mark that the step of this number was over so long before it."""
    return Range(f"tk/step/{number} ended {passed_ns} ns ago")


def phase(name: Phase) -> Range:
    """Return the range of a phase of a step."""
    return Range(f"tk/phase/{name}")


def part(name: str) -> Range:
    return Range(f"tk/part/{name}")


def open_range(owner: object, name: str) -> int:
    stack = this_thread.open
    if stack and isinstance(stack[-1].owner, Pass):
        close_stale()
    stack.append(OpenRange(owner, name))
    return len(stack) - 1


def close_stale() -> None:
    """Close the backward ranges that an exception in a backward pass has left open."""
    stack = this_thread.open
    if not is_backward():
        while stack and isinstance(stack[-1].owner, Pass):
            stack.pop().close()


def close_down_to(depth: int) -> None:
    """Close the innermost ranges of this thread until so many are open."""
    stack = this_thread.open
    while len(stack) > depth:
        stack.pop().close()
