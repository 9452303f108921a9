"""How many steps of a loop are recorded, and how."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracekit.manifest import Stage

PROFILER_WARMUP_COUNT = 1
"""Steps that the profiler sees before those that it keeps."""


_FILE = "plan.json"


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """How many steps of each kind, in their order, and what the profiler keeps.

    Attributes:
        warmup_count: steps that do not count.
        measured_count: timed steps, with nothing added to them.
        profiled_count: steps with ranges alone, and again as many under the profiler.
        stage: what the manifest calls the run (`manifest.Stage`).
        name: the model's name in tables; its class if None.
        record_shapes: whether to keep the shapes of operators' arguments.
        with_stack: whether to keep Python stacks.
        with_flops: whether the profiler is to count floating-point operations itself.
        profile_memory: whether to keep the allocator's events.
        all_threads: whether to see threads that the loop starts itself.
        ranks: which ranks leave a trace, as `rank_choice` knows it; None is its default.
        window_count: how many windows of steps are profiled.
        every_count: steps from the end of one window to the next.
        request: a file that asks a running loop for another window while it is there.
    """

    warmup_count: int = 2
    measured_count: int = 5
    profiled_count: int = 3
    stage: Stage = "custom"
    name: str | None = None
    record_shapes: bool = True
    with_stack: bool = False
    with_flops: bool = False
    profile_memory: bool = False
    all_threads: bool = False
    ranks: str | None = None
    window_count: int = 1
    every_count: int = 0
    request: str | None = None

    @staticmethod
    def read(folder: Path) -> LoopPlan:
        """Read the plan that `write` left in a folder."""
        return LoopPlan(**json.loads((folder / _FILE).read_text("utf-8")))

    def write(self, folder: Path) -> None:
        """Leave the plan in a folder, for the processes of a program.

        Raises:
            OSError: it cannot be written.
        """
        (folder / _FILE).write_text(json.dumps(dataclasses.asdict(self)), "utf-8")

    @property
    def step_count(self) -> int:
        """How many steps the loop must have."""
        recorded = self.measured_count + 2 * self.profiled_count + PROFILER_WARMUP_COUNT
        return self.warmup_count + recorded

    def too_few(self, count: int) -> str:
        """Return the sentence about a loop that ended after so many steps."""
        return (
            f"the loop ended after {count} steps, but {self.step_count} are needed: "
            f"{self.warmup_count} to warm up, {self.measured_count} timed, "
            f"{self.profiled_count} with ranges, {PROFILER_WARMUP_COUNT} for the profiler to warm "
            f"up and {self.profiled_count} profiled"
        )
