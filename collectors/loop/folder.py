"""Builds the run folder of a recorded loop from the output of its ranks.

Ranks write reports to `work` and traces to `path`; the last rank moves the traces to the final
folder. Later windows and the exit code are added later.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from tracekit import manifest
from tracekit.errors import TracekitError

from ..run.folder import (
    LIGHT,
    LOGS,
    WORK,
    compress,
    disk_errors,
    register_owner,
    remove_stale,
    temporary_sibling,
    working_folder,
)
from ..run.fragments import commit_fragment, rewrite
from .plan import LoopPlan
from .rank_lock import holder_of, rejected_count
from .report import LoopReport, make_manifest


class LoopFolder:
    """The working folder of a loop; `mark` makes its name unique among processes."""

    def __init__(
        self, target: Path, plan: LoopPlan, command: Sequence[str], mark: str, *, force: bool
    ) -> None:
        self.target = target
        self.final_path: Path | None = None
        self._plan = plan
        self._command = command
        self._force = force
        self.path = working_folder(target, mark)
        self.work = self.path / WORK
        self._window_count = 0

    def open(self) -> None:
        with disk_errors(self.target):
            remove_stale(self.target)
            register_owner(self.path)

    def close(self) -> None:
        """Remove the folder; rename it first, because running processes may still write into it."""
        trash = temporary_sibling(self.path)
        try:
            self.path.replace(trash)
        except OSError:
            trash = self.path
        shutil.rmtree(trash, ignore_errors=True)

    def commit(
        self,
        reports: Sequence[LoopReport],
        outcome: manifest.Outcome,
        reason: str | None,
        exit_code: int | None = None,
    ) -> manifest.Manifest:
        """Build the run folder, or replace its content with a later loop's; set `final_path`."""
        reports = [self._packed(report) for report in reports]
        run = make_manifest(
            reports, self._plan, self._command, outcome=outcome, reason=reason, exit_code=exit_code
        )
        self.note_processes(reports, run)
        if self.final_path is not None:
            with disk_errors(self.target):
                self._move_traces(reports, self.final_path)
                rewrite(run, self.final_path)
        else:
            with self._aside() as aside:
                self._move_traces(reports, aside)
                self.final_path = commit_fragment(aside, self.target, run, force=self._force)
        self.add_windows(reports, run)
        return run

    def note_processes(self, reports: Sequence[LoopReport], run: manifest.Manifest) -> None:
        for report in reports:
            start = f"process {holder_of(self.work, report.rank)} is recorded as rank {report.rank}"
            run.notes = [note for note in run.notes if not note.startswith(start)]
            if count := rejected_count(self.work, report.rank):
                others = "another process" if count == 1 else f"{count} other processes"
                run.notes.append(f"{start}; {others} of that rank trained and are not recorded")

    def _move_traces(self, reports: Sequence[LoopReport], folder: Path) -> None:
        for report in reports:
            if report.trace is not None:
                (self.path / report.folder / report.trace).replace(folder / report.trace)
            # Remove the light trace of an earlier loop.
            (folder / LIGHT / f"rank{report.rank}.json.gz").unlink(missing_ok=True)
            if report.light_trace is not None:
                (folder / LIGHT).mkdir(exist_ok=True)
                source = self.path / report.folder / report.light_trace
                source.replace(folder / report.light_trace)

    def add_windows(self, reports: Sequence[LoopReport], run: manifest.Manifest) -> int:
        """Add new windows as `step-<first step>`; return the total number of later windows."""
        result = sorted(
            (window["first_step"], window["step_count"], report.rank, path)
            for report in reports
            for window in report.windows
            if (path := self.path / report.folder / window["trace"]).is_file()
        )
        if self.final_path is None:
            return self._window_count
        for first_step in dict.fromkeys(entry[0] for entry in result):
            entries = [entry for entry in result if entry[0] == first_step]
            self._add_window(run, first_step, entries)
            self._window_count += 1
        return self._window_count

    def end(
        self,
        run: manifest.Manifest,
        exit_code: int | None,
        outcome: manifest.Outcome,
        reason: str | None,
    ) -> None:
        if self.final_path is None:
            return
        run = replace(run, exit_code=exit_code)
        if reason is not None:
            run.outcome, run.reason = outcome, reason
        rewrite(run, self.final_path)

    def _add_window(
        self, run: manifest.Manifest, first_step: int, entries: Sequence[tuple[int, int, int, Path]]
    ) -> None:
        traces = {}
        assert self.final_path is not None
        with self._aside() as aside:
            for _, _, rank, trace in entries:
                packed = compress(trace)
                packed.replace(aside / packed.name)
                traces[rank] = packed.name
            window = replace(
                run,
                run_id=f"{run.run_id}-{first_step}",
                job_id=f"{run.job_id}-{first_step}",
                ranks=[replace(rank, trace=traces.get(rank.rank)) for rank in run.ranks],
                traces=list(traces.values()),
                light_traces=[],
                steps=replace(run.steps, profiled_count=entries[0][1]),
            )
            commit_fragment(aside, self.final_path / f"step-{first_step}", window, force=True)

    @contextlib.contextmanager
    def _aside(self) -> Iterator[Path]:
        aside = temporary_sibling(self.path)
        with disk_errors(self.target):
            (aside / LOGS).mkdir(parents=True)
            try:
                yield aside
            finally:
                shutil.rmtree(aside, ignore_errors=True)

    def _packed(self, report: LoopReport) -> LoopReport:
        report = replace(report, light_trace=self._packed_light(report))
        if report.trace is None or not report.trace.endswith(".json"):
            return report
        path = self.path / report.folder / report.trace
        try:
            return replace(report, trace=compress(path).name)
        except TracekitError as error:
            return replace(
                report,
                trace=report.trace if path.is_file() else None,
                notes=[*report.notes, error.message],
            )

    def _packed_light(self, report: LoopReport) -> str | None:
        if report.light_trace is None:
            return None
        path = self.path / report.folder / report.light_trace
        try:
            packed = compress(path) if path.suffix == ".json" else path
        except TracekitError:
            return None
        return f"{LIGHT}/{packed.name}"
