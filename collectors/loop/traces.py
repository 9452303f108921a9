"""Profiles of a loop, one at a time, and their traces."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..process.distributed import Place
from ..profiler.profile import Profile, end_without_destructors
from ..run.folder import LIGHT
from .plan import PROFILER_WARMUP_COUNT, LoopPlan
from .report import LoopReport

_left: list[Profile] = []
"""References to dropped profiles, because destroying a running profiler would crash the process."""


class LoopTraces:
    """Profiles a loop, with a trace per window; a light profile may follow the first window."""

    def __init__(self, plan: LoopPlan, place: Place, report: LoopReport) -> None:
        self._plan = plan
        self._place = place
        self._report = report
        self._profile: Profile | None = None
        self._begin = 0
        self.has_begun = self.is_light = False
        self.file_count = 0

    @property
    def is_open(self) -> bool:
        return self._profile is not None

    @property
    def first_step(self) -> int:
        return self._begin + PROFILER_WARMUP_COUNT

    @property
    def recorded_count(self) -> int:
        return max(0, self._report.step_count - self.first_step)

    def begin(self, step_count: int, folder: Path) -> None:
        self.has_begun = True
        self._start(folder, step_count, self._metadata(), **self._plan.profiler)

    def begin_light(self, step_count: int, folder: Path, activities: Sequence[Any]) -> None:
        (folder / LIGHT).mkdir(exist_ok=True)
        self.is_light = True
        metadata = {**self._metadata(), "is_light": True}
        options = {"record_shapes": False, "activities": activities}
        self._start(folder / LIGHT, step_count, metadata, **options)

    def _start(
        self, folder: Path, step_count: int, metadata: dict[str, Any], **options: Any
    ) -> None:
        path = folder / f"rank{self._place.rank}.json.gz"
        self._profile = Profile(
            path, metadata, warmup=PROFILER_WARMUP_COUNT, active=step_count, **options
        )
        self._profile.begin()
        self._begin = self._report.step_count

    def end_light(self, step_ns: int | None) -> None:
        count, report = self.recorded_count, self._report
        profile = self._profile
        if profile is None:
            return
        if not count:
            self.abandon()
            return
        begin_ns = time.perf_counter_ns()
        profile.end()
        self._profile, self.is_light = None, False
        path = profile.save()
        self.file_count += 1
        self.note_stall(time.perf_counter_ns() - begin_ns)
        report.light_step_ns, report.light_trace = step_ns, f"{LIGHT}/{path.name}"

    def note_stall(self, stall_ns: int) -> None:
        self._report.export_stall_ns = max(self._report.export_stall_ns or 0, stall_ns)

    def drop_light(self) -> bool:
        profile, self._profile, self.is_light = self._profile, None, False
        if profile is not None:
            try:
                profile.abandon()
            except Exception:  # noqa: BLE001 - errors must not reach the loop
                _left.append(profile)
                return False
        return True

    def step(self) -> None:
        if self._profile is not None:
            self._profile.step()

    def end(self, step_ns: int | None) -> None:
        """End the profile; report its trace for the run or for a later window."""
        profile, self._profile = self._profile, None
        count, report = self.recorded_count, self._report
        if profile is None:
            return
        if not count:
            profile.abandon()
            return
        begin_ns = time.perf_counter_ns()
        profile.end()
        path = profile.save()
        self.file_count += 1
        self.note_stall(time.perf_counter_ns() - begin_ns)
        if report.is_recorded:
            trace = f"{path.parent.name}/{path.name}"
            report.windows.append(
                {"first_step": self.first_step, "step_count": count, "trace": trace}
            )
            return
        report.profiled_step_ns, report.profiled_count = step_ns, count
        report.trace, report.is_recorded = path.name, True
        report.is_cut_short = count < self._plan.profiled_count
        if report.is_cut_short:
            report.note(f"{count} of {self._plan.profiled_count} steps were profiled")

    def abandon(self) -> None:
        profile, self._profile, self.is_light = self._profile, None, False
        if profile is not None:
            profile.abandon()

    def leave(self, *, is_ended: bool) -> None:
        """Drop the profile, which belongs to the parent of a fork or to another thread.

        If `is_ended`, also stop the profiler, but write no trace: torch crashes (SIGSEGV) if a
        thread ends while its profiler runs, or if another thread exports the trace.
        """
        if self.has_begun and not is_ended:
            end_without_destructors()
        profile, self._profile = self._profile, None
        if profile is not None:
            _left.append(profile)
            if is_ended:
                with contextlib.suppress(Exception):
                    profile.abandon()

    def _metadata(self) -> dict[str, Any]:
        return {
            "stage": self._plan.stage,
            "engine": self._report.engine,
            "model": self._report.model.get("name"),
            "batch_size": self._report.batch_size,
            "sequence_length": self._report.sequence_length,
            "precision": self._report.precision,
            "rank": self._place.rank,
            "world_size": self._place.world_size,
            **self._plan.metadata,
        }
