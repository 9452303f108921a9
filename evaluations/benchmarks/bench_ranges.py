"""Measures the host cost of a range, and of a module call with ranges.

Runs on one CPU thread, without a profiler and under `torch.profiler` (CPU, no shapes). For module
calls, prints the time that ranges add to a chain of identity modules. Figures are minima over
several rounds, because other programs can only increase them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # prevents a log line per round

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from tracekit.collectors.ranges import ModuleRanges, part

LENGTH, ROUNDS = 200, 40
LIMITS_US = {False: 3.0, True: 8.0}
"""Limits for a module call, without and under a profiler."""


class Identity(nn.Module):
    """Returns its input."""

    def forward(self, given: Any) -> Any:
        return given


class Scale(nn.Module):
    """Has a backward pass."""

    def forward(self, given: Any) -> Any:
        return given * 1.0


def least_us(
    act: Callable[[], object], contexts: Sequence[AbstractContextManager[Any]], *, is_profiled: bool
) -> list[float]:
    """Return the minimum time per iteration in each context, µs; contexts alternate."""
    results: list[list[int]] = [[] for _ in contexts]
    for _ in range(ROUNDS):
        for times, context in zip(results, contexts, strict=True):
            profiler = profile(activities=[ProfilerActivity.CPU]) if is_profiled else nullcontext()
            with context, profiler:
                act()  # the first call creates reused objects
                begin = time.perf_counter_ns()
                act()
                times.append(time.perf_counter_ns() - begin)
    return [min(times) / 1e3 / LENGTH for times in results]


def range_us(*, is_profiled: bool) -> float:
    """Return the time of a range."""

    def act() -> None:
        for _ in range(LENGTH):
            with part("bench"):
                pass

    return least_us(act, [nullcontext()], is_profiled=is_profiled)[0]


def added_us(
    kind: type[nn.Module], given: torch.Tensor, *, is_profiled: bool, **how: bool
) -> float:
    """Return the time that ranges add to a module call and to its backward pass, if any."""
    model = nn.Sequential(*(kind() for _ in range(LENGTH)))

    def act() -> None:
        result = model(given)
        if result.grad_fn is not None:
            result.sum().backward()

    contexts = [nullcontext(), ModuleRanges(model, **how)]
    without, ranged = least_us(act, contexts, is_profiled=is_profiled)
    return ranged - without


def main() -> int:
    """Measure, print a line per case, and return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", type=int, default=0, help="CPU to run on [default: 0]")
    given = parser.parse_args()
    os.sched_setaffinity(0, {given.cpu})
    torch.set_num_threads(1)
    plain, leaf = torch.ones(4), torch.ones(4, requires_grad=True)
    cases: dict[str, Callable[..., float]] = {
        "a range": range_us,
        "module call": partial(added_us, Identity, plain),
        "module call, trained": partial(added_us, Scale, leaf),
        "with backward ranges": partial(added_us, Scale, leaf, backward=True),
    }
    print(f"{'µs':<28}{'no profiler':>12}{'profiler':>12}")
    is_missed = False
    for name, measure in cases.items():
        result = {is_profiled: measure(is_profiled=is_profiled) for is_profiled in (False, True)}
        print(f"{name:<28}{result[False]:>12.2f}{result[True]:>12.2f}", flush=True)
        if name.startswith("module call"):
            is_missed |= any(result[key] > limit for key, limit in LIMITS_US.items())
    print(f"{'module call, at most':<28}{LIMITS_US[False]:>12.2f}{LIMITS_US[True]:>12.2f}")
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
