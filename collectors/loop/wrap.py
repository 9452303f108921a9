"""`tracekit collect … -- python train.py`: records an unchanged program.

The program can be any command that eventually runs Python, such as `python`, `torchrun`, `srun`, or
a shell script; `bootstrap` runs in each of its Python processes. The run folder is written once
every rank has a trace, while the program continues. If several instances of this command run a job,
each writes its own ranks, and `run.fragments` merges them into one run.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracekit import manifest
from tracekit.errors import StoreError, TracekitError, UsageError
from tracekit.redaction import mask_text, mask_words

from ..command_line import profiler_options, range_options
from ..machine import memory
from ..process.ending import describe_exit_code, shell_code
from ..process.job import launched_place
from ..process.program import run_program
from ..run.folder import Ended, check_replaceable, default_target, host_mark
from .bootstrap import SITE, TORCH, UNUSABLE, VARIABLE
from .folder import LoopFolder
from .plan import LoopPlan, check_ranks
from .rank_lock import UNRECORDED
from .report import LoopReport, first_failure, loop_notes, read_reports, summary

# Count options of the command line, and the corresponding fields of the plan.
_COUNTS = {
    "warmup": "warmup_count",
    "steps": "measured_count",
    "profile_steps": "profiled_count",
    "windows": "window_count",
    "every": "every_count",
}
_SIGNALS = {"USR1": signal.SIGUSR1, "USR2": signal.SIGUSR2}


def run(
    values: Mapping[str, Any],
    program: Sequence[str],
    command: Sequence[str],
    echo: Callable[[str], None],
) -> Ended:
    """Run a program and record its training loop; `echo` reports problems."""
    target: Path = values.get("out") or default_target("custom", _stem(program))
    plan = _plan(values, target)
    is_alone = launched_place(os.environ) is None
    if is_alone:
        check_replaceable(target, force=bool(values.get("force")))
    folder = LoopFolder(
        target,
        plan,
        command,
        f"{os.getpid()}.{host_mark()}",
        force=bool(values.get("force")) and is_alone,
    )
    wrapped = _Wrapped(folder, plan, program, echo, _SIGNALS.get(values.get("on_signal", "")))
    return wrapped.run()


class _Wrapped:
    def __init__(
        self,
        folder: LoopFolder,
        plan: LoopPlan,
        program: Sequence[str],
        echo: Callable[[str], None],
        request_signal: signal.Signals | None,
    ) -> None:
        self._folder = folder
        self._plan = plan
        self._program = program
        self._to_people = echo
        self._request_signal = request_signal
        self._place = launched_place(os.environ)
        self._run: manifest.Manifest | None = None
        self._committer: threading.Thread | None = None
        # By rank: `folder` of the report whose trace is in the run folder.
        self._recorded: dict[int, str] = {}

    def run(self) -> Ended:
        kill_count = memory.kernel_kill_count()
        environment = self._prepare()
        try:
            code = run_program(self._program, environment, self._look, self._takes)
            if self._committer is not None:
                self._committer.join()
            try:
                self._finish(code, kill_count)
            except TracekitError as error:
                self._echo(f"the run folder was not written: {error.message}")
        finally:
            self._folder.close()
            if self._plan.request is not None:
                Path(self._plan.request).unlink(missing_ok=True)
        return Ended(self._folder.final_path, shell_code(code))

    def _echo(self, *lines: str, begin: str = "") -> None:
        is_one_of_many = self._place is not None and self._place.world_size > 1
        rank = f"rank {self._place.rank}: " if self._place is not None and is_one_of_many else ""
        texts = [mask_text(f"tracekit: {rank}{line}").replace("\n", " ") for line in lines]
        with contextlib.suppress(OSError):  # a closed output must not fail the run
            self._to_people(begin + "\n".join(texts))

    def _prepare(self) -> dict[str, str]:
        """Return the environment for recording; if that fails (disk full), the original one."""
        try:
            self._folder.open()
            work = self._folder.work
            site = work / "site"
            site.mkdir()
            (site / "sitecustomize.py").write_text(SITE, "utf-8")
            self._plan.write(work)
        except (StoreError, OSError) as error:
            reason = error.message if isinstance(error, StoreError) else str(error)
            self._echo(f"{reason}; running the program without recording")
            return dict(os.environ)
        if outer := os.environ.get(VARIABLE):
            with contextlib.suppress(OSError):  # the outer command may have exited
                text = "a nested `tracekit collect` recorded the training"
                (Path(outer) / UNRECORDED).write_text(text, "utf-8")
        before = os.environ.get("PYTHONPATH")
        path = str(site) if not before else f"{site}{os.pathsep}{before}"
        return {
            **os.environ,
            VARIABLE: str(work),
            "PYTHONPATH": path,
        }

    def _takes(self, number: int) -> bool:
        if number != self._request_signal or self._plan.request is None:
            return False
        with contextlib.suppress(OSError):
            Path(self._plan.request).write_text("", "ascii")
        return True

    def _look(self) -> None:
        if self._committer is not None and self._committer.is_alive():
            return
        reports = read_reports(self._folder.work, LoopReport)
        is_complete = bool(reports) and len(reports) == self._expected_count(reports[0])
        if is_complete and all(self._is_new(report) for report in reports):
            # Compression takes time, and must not delay the forwarding of signals.
            self._committer = threading.Thread(target=self._commit_early, args=(reports,))
            self._committer.start()

    def _expected_count(self, report: LoopReport) -> int | None:
        place = self._place
        if place is not None and (place.rank, place.world_size) == (report.rank, report.world_size):
            return 1
        return report.local_rank_count or (1 if report.world_size == 1 else None)

    def _is_new(self, report: LoopReport) -> bool:
        return _is_recorded(report) and report.folder != self._recorded.get(report.rank)

    def _commit_early(self, reports: Sequence[LoopReport]) -> None:
        self._recorded = {report.rank: report.folder for report in reports}
        try:
            # The program may be drawing a progress bar on the terminal.
            begin = "\n" if os.isatty(2) else ""
            self._commit(reports, "ok", None, None, "the program is still running", begin=begin)
        except TracekitError as error:
            self._echo(f"the run folder was not written: {error.message}")

    def _commit(
        self,
        reports: Sequence[LoopReport],
        outcome: manifest.Outcome,
        reason: str | None,
        exit_code: int | None,
        *more: str,
        begin: str = "",
    ) -> manifest.Manifest:
        if self._run is not None:
            more = ("of a longer loop, replacing the previous one", *more)
        run = self._run = self._folder.commit(reports, outcome, reason, exit_code)
        self._echo(
            *summary(run, self._folder.final_path or self._folder.target), *more, begin=begin
        )
        return run

    def _finish(self, code: int, kill_count: int) -> None:
        reports = read_reports(self._folder.work, LoopReport)
        if self._run is not None:
            if reports and all(self._is_new(report) for report in reports):
                self._commit(reports, "ok", None, shell_code(code))
            count = self._folder.add_windows(reports, self._run)
            self._note_end(self._run, code, reports)
            if count:
                self._echo(f"{count} more windows: {self._folder.final_path}/step-*")
            return
        if not reports and not code:
            self._echo(self._nothing_seen())
            return
        outcome, reason = _outcome(reports, code, kill_count)
        if reason is not None:
            self._echo(reason)
        run = self._commit(reports, outcome, reason, shell_code(code))
        if outcome == "ok":
            self._note_end(run, code, reports)

    def _note_end(self, run: manifest.Manifest, code: int, reports: Sequence[LoopReport]) -> None:
        reason = None
        failed = first_failure(reports)
        if code:
            reason = _ending(reports, code, is_explained=failed is not None)
            if failed is not None:
                reason = f"rank {failed.rank}: {failed.reason}; {reason}"
            is_whole = not _unfinished_steps(reports, code)
            self._echo(f"{reason}; {self._folder.final_path} is complete" if is_whole else reason)
        outcome = "failed" if failed is None else failed.outcome
        known = {*run.notes}
        run.notes += [note for note in loop_notes(reports) if note not in known]
        self._folder.note_processes(reports, run)
        for note in run.notes:
            if note not in known:
                self._echo(f"note: {note}")
        self._folder.end(run, shell_code(code), outcome, reason)

    def _nothing_seen(self) -> str:
        shown = shlex.join(mask_words(self._program))
        if not self._folder.work.is_dir():
            return f"{shown} removed {self._folder.path}, so nothing was recorded"
        unusable = self._folder.work / UNUSABLE
        if unusable.is_file():
            return (
                f"{shown}: its Python cannot load tracekit: {unusable.read_text('utf-8')}; no run "
                "folder was written. Install tracekit in the program's environment."
            )
        unrecorded = self._folder.work / UNRECORDED
        if unrecorded.is_file():
            return f"{shown}: {unrecorded.read_text('utf-8')}; no run folder was written here"
        if not (self._folder.work / TORCH).is_file():
            return (
                f"{shown}: no Python process imported torch, so no run folder was "
                "written; processes started with python -I, -E, or -S, in containers, or "
                "on other machines are not visible"
            )
        return (
            f"{shown}: no training step was detected, so no run folder was written: no "
            "torch optimizer updated parameters of a called module. For other "
            "optimizers, call `tracekit.step()` after each step; for other loops, use "
            "`with tracekit.collect(model=…) as step:`."
        )


def _is_recorded(report: LoopReport) -> bool:
    is_whole = report.trace is not None or not report.is_traced
    is_over = report.is_complete or report.is_final
    return is_whole and report.outcome == "ok" and report.is_recorded and is_over


def _outcome(
    reports: Sequence[LoopReport], code: int, kill_count: int
) -> tuple[manifest.Outcome, str | None]:
    failed = first_failure(reports)
    ending = _ending(reports, code, is_explained=failed is not None)
    if failed is not None:
        reason = f"rank {failed.rank}: {failed.reason}"
        return failed.outcome, f"{reason}; {ending}" if code else reason
    # A shell's exit code encodes the signal that ended its command.
    number = shell_code(code) - 128
    if number > 0 and memory.was_killed_for_memory(-number, kill_count):
        return "oom", f"{ending}: killed by the kernel, out of memory"
    if not reports or _unfinished_steps(reports, code):
        return "failed", ending
    return "ok", None


def _ending(reports: Sequence[LoopReport], code: int, *, is_explained: bool) -> str:
    """Return how a program ended and how far it was recorded, unless `is_explained`."""
    ending = f"the program ended with {describe_exit_code(code)}"
    steps = _unfinished_steps(reports, code)
    if reports and not steps:
        return f"{ending} after the recording was complete"
    if is_explained:
        return ending
    if not reports:
        return f"{ending} before a training step was seen"
    return f"{ending} in step {min(steps)}, before the recording was complete"


def _unfinished_steps(reports: Sequence[LoopReport], code: int) -> list[int]:
    return [
        report.step_count
        for report in reports
        if not report.is_recorded or (code and report.is_cut_short)
    ]


def _plan(values: Mapping[str, Any], target: Path) -> LoopPlan:
    if values["stage"] == "serve":
        raise UsageError(
            "--stage serve cannot be combined with a program; its training is recorded"
        )
    if values.get("warmup", 1) < 1:
        raise UsageError("--warmup is 0, but must be 1 or more")
    if values.get("windows", 1) > 1 and "every" not in values:
        raise UsageError("--windows needs --every, the steps between two windows")
    if "every" in values and "windows" not in values:
        raise UsageError("--every needs --windows, the number of profiled windows")
    request = values.get("on_demand")
    if request is None and "on_signal" in values:
        whole = target.resolve()
        request = whole.parent / f".{whole.name}.request-{os.getpid()}"
    counts = {_COUNTS[key]: values[key] for key in _COUNTS if key in values}
    if "steps" in values:
        counts["after_count"] = values["steps"]
    return LoopPlan(
        **counts,
        profiler=profiler_options(values),
        **range_options(values),
        ranks=check_ranks(values["ranks"]) if "ranks" in values else None,
        request=None if request is None else str(Path(request).resolve()),
    )


def _stem(program: Sequence[str]) -> str:
    for word in program:
        if word.endswith((".py", ".sh")):
            return Path(word).stem
    return Path(program[0]).name
