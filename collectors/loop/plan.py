"""Selects the steps of a loop to record, and the ranks to trace."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from tracekit.errors import UsageError

from ..process.distributed import Place

if TYPE_CHECKING:
    from tracekit.manifest import Stage

PROFILER_WARMUP_COUNT = 1
"""Number of profiler warm-up steps."""

ALL_UP_TO = 8
"""Maximum world size for which all ranks are traced by default."""

ALL = "all"
FIRST_OF_NODE = "first-of-node"

# Kinds of steps to reduce for a short loop, in this order, with the minimum number of each.
_SHORTENED: tuple[tuple[str, int], ...] = (
    ("measured_count", 2),
    ("profiled_count", 2),
    ("warmup_count", 1),
    ("profiled_count", 1),
)

_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_FILE = "plan.json"


class LoopPlan(Struct, frozen=True):
    """Numbers of steps of each kind, and settings of the profiler.

    `profiled_count` steps run with ranges only, and the same number runs under the profiler. In a
    long loop, `after_count` timed steps follow the profiled ones. Each window after the first
    begins `every_count` steps after the previous one, or when the file `request` is created or
    touched. `loop_length` is the number of steps of the loop for which the plan was shortened, if
    any.
    """

    warmup_count: int = 2
    measured_count: int = 5
    after_count: int = 5
    profiled_count: int = 3
    stage: Stage = "custom"
    name: str | None = None
    profiler: dict[str, Any] = field(default_factory=dict)
    has_light_steps: bool = True
    has_backward_ranges: bool = False
    has_nvtx: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    ranks: str | None = None
    window_count: int = 1
    every_count: int = 0
    request: str | None = None
    loop_length: int = 0

    @staticmethod
    def read(folder: Path) -> LoopPlan:
        return LoopPlan(**json.loads((folder / _FILE).read_text("utf-8")))

    def write(self, folder: Path) -> None:
        (folder / _FILE).write_text(json.dumps(msgspec.to_builtins(self)), "utf-8")

    @property
    def step_count(self) -> int:
        recorded = self.measured_count + 2 * self.profiled_count + PROFILER_WARMUP_COUNT
        return self.warmup_count + recorded

    def fitted(self, step_count: int) -> LoopPlan | None:
        """Return a plan with fewer steps for a short loop; None if impossible or unnecessary."""
        plan = self
        for name, least in _SHORTENED:
            while plan.step_count > step_count and (count := getattr(plan, name)) > least:
                plan = replace(plan, **{name: count - 1})
        if plan is self or plan.step_count > step_count:
            return None
        return replace(plan, loop_length=step_count)

    def too_few(self, count: int, loop_count: int) -> str:
        loop = "the loop" if loop_count == 1 else f"the longest of {loop_count} loops"
        return (
            f"{loop} ended after {count} steps, but {self.step_count} are needed: "
            f"{self.warmup_count} to warm up, {self.measured_count} timed, "
            f"{self.profiled_count} with ranges, {PROFILER_WARMUP_COUNT} for the profiler to warm "
            f"up, and {self.profiled_count} profiled"
        )


def check_ranks(text: str) -> str:
    if text not in (ALL, FIRST_OF_NODE):
        _bounds(text)
    return text


def is_traced(choice: str | None, place: Place) -> bool:
    chosen = choice or default_ranks(place.world_size)
    if chosen == ALL:
        return True
    if chosen == FIRST_OF_NODE:
        return place.local_rank == 0
    return any(first <= place.rank <= last for first, last in _bounds(chosen))


def default_ranks(world_size: int) -> str:
    return ALL if world_size <= ALL_UP_TO else FIRST_OF_NODE


def _bounds(text: str) -> list[tuple[int, int]]:
    bounds = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise UsageError(
                f"--ranks is {text!r}, which does not select ranks",
                hint="for example 0,8,16-23, first-of-node, or all",
            )
        bounds.append((first, last))
    return bounds
