"""Open ranges of each thread, and range names except module names.

The names are a contract with the analyses, and users see them in Perfetto and Nsight:
`tk/step/<n>`, `tk/phase/<name>`, `tk/part/<name>`, and the names in `modules`. Each range is a
profiler annotation, and also an NVTX range if an NVTX tool is attached (see `use_nvtx`).

**Cost.** `record_function` goes through the dispatcher, visible to dispatch modes of the program,
and takes 10 to 22 µs per range under a profiler. Calling the underlying ops directly takes 3 µs.
`_RecordFunctionFast` would take 1 µs. But its ranges appear as ops unless the profiler records
shapes, and fail if a profiler starts inside them.

**Threads.** Open ranges are per thread, and closing one closes all ranges inside it. So every range
ends on its own thread and in the right order, even after exceptions, early stops of non-reentrant
checkpoints, and Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any, Literal, Self

import torch
from torch.autograd import profiler

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

# A private name, which DDP and FSDP also use.
_engine = getattr(torch.autograd.Variable, "_execution_engine", None)
# Private names of torch, which may be missing. Without the first two, ranges cost a few µs even
# without a profiler. Without the third, recomputation appears as forward.
_is_thread_profiled: Callable[[], bool] = getattr(torch.autograd, "_profiler_enabled", lambda: True)
_is_process_profiled = "_is_profiler_enabled"
graph_task_id: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)

# Nsight Systems sets the first variable; other NVTX tools set the second to their library's path.
_NVTX_READERS = ("NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH")


def _annotators() -> tuple[Callable[[str], Any], Callable[[Any], object]]:
    begin = getattr(torch.autograd, "_record_function_with_args_enter", None)
    end = getattr(torch.autograd, "_record_function_with_args_exit", None)
    if begin is not None and end is not None:
        return begin, end

    def enter(name: str) -> Any:
        annotation = profiler.record_function(name)
        annotation.__enter__()
        return annotation

    return enter, lambda annotation: annotation.__exit__(None, None, None)


_annotate, _end_annotation = _annotators()
# The nvtx package if ranges are also NVTX ranges, else None.
_nvtx: Any = None


def use_nvtx() -> None:
    global _nvtx
    with contextlib.suppress(ImportError):
        import nvtx

        _nvtx = nvtx


if any(map(os.environ.get, _NVTX_READERS)):
    use_nvtx()


class Task:
    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


class Pass:
    """The backward pass through one call of a module."""

    __slots__ = ("name", "path", "prefix", "task")

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.prefix = f"{path}."
        self.name = name
        self.task: Task | None = None

    @property
    def is_over(self) -> bool:
        return self.task is not None and self.task.is_over

    def holds(self, other: Pass) -> bool:
        """Return whether the range of another call may be nested in this one."""
        return not self.is_over and other.path.startswith(self.prefix)


class BackwardTasks:
    def __init__(self) -> None:
        self._tasks: dict[int, Task] = {}

    def current(self, number: int, at_end: Callable[[], None]) -> Task:
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


OpenRange = tuple[object, Any, Any, "torch.Tensor | None"]
"""An open range: owner, annotation, NVTX package, and (for backward ranges) the input whose
gradient ends the backward range."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.open: list[OpenRange] = []
        self.tasks = BackwardTasks()


this_thread = _Thread()


def open_count() -> int:
    return len(this_thread.open)


def is_backward() -> bool:
    return graph_task_id() != -1


class Range:
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
        # The end of an enclosing range may have closed it already.
        if depth < len(stack) and stack[depth][0] is self:
            close_down_to(depth)


def step(number: int, *, is_anew: bool = False) -> Range:
    """Return the range of a step; `is_anew` means that the step starts over."""
    return Range(f"tk/step/{number}{' anew' if is_anew else ''}")


def step_end(number: int, passed_ns: int) -> Range:
    """Return a marker range: the step ended `passed_ns` earlier."""
    return Range(f"tk/step/{number} ended {passed_ns} ns ago")


def phase(name: Phase) -> Range:
    return Range(f"tk/phase/{name}")


def part(name: str) -> Range:
    return Range(f"tk/part/{name}")


def open_range(owner: object, name: str, first: torch.Tensor | None = None) -> int:
    """Open a range; return the number of enclosing ranges."""
    stack = this_thread.open
    if stack and isinstance(stack[-1][0], Pass):
        close_stale()
    nvtx = _nvtx
    if nvtx is not None:
        nvtx.push_range(name)
    annotation = None
    # Two checks, because the second misses profilers of all threads, and the first misses profilers
    # started from C++.
    if getattr(profiler, _is_process_profiled, True) or _is_thread_profiled():
        annotation = _annotate(name)
    stack.append((owner, annotation, nvtx, first))
    return len(stack) - 1


def close_stale() -> None:
    """Close backward ranges left open by an exception."""
    stack = this_thread.open
    if not is_backward():
        while stack and isinstance(stack[-1][0], Pass):
            close_down_to(len(stack) - 1)


def close_down_to(depth: int) -> None:
    """Close the innermost ranges of this thread until only `depth` are open."""
    stack = this_thread.open
    while len(stack) > depth:
        _, annotation, nvtx, _ = stack.pop()
        if annotation is not None:
            _end_annotation(annotation)
        if nvtx is not None:
            nvtx.pop_range()
