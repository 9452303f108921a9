"""`tracekit collect … -- python train.py`: record a program of one's own, unchanged.

The program may be started in any way that ends in Python: `python`, `torchrun`, `deepspeed`,
`accelerate launch`, a shell script. `wrap_bootstrap` runs in each of its Python processes and
records the training loop it finds. As soon as every rank has left its trace, the run folder is
whole, and the program runs on to its end; what happens to it later changes nothing. A program that
fails before leaves no run folder.

Under a launcher (`torchrun … -m tracekit.collectors … -- python train.py`, with RANK and WORLD_SIZE
set) each rank runs its own copy of the program, and rank 0 makes the folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracekit.errors import UsageError, WorkloadError

from .distributed import Place, place_in
from .launch import signals_as_interrupt
from .loop_plan import LoopPlan
from .loop_report import LoopReport, make_manifest, read_reports, summary, wait_for_reports
from .run_folder import RunFolder, disk_errors
from .shared_folder import WAIT_S, check_ranks, run_folder
from .wrap_bootstrap import PLAN, SITE, UNUSABLE, VARIABLE

_TAKEN = {
    *("stage", "out", "force", "warmup", "steps", "profile_steps"),
    *("no_shapes", "with_stack", "profile_memory"),
}
_POLL_S = 0.1
_GRACE_S = 10.0
_START_S = 60.0


def run(
    values: Mapping[str, Any],
    program: Sequence[str],
    command: Sequence[str],
    echo: Callable[[str], None],
) -> Path:
    """Run a program and record its training loop.

    Args:
        values: the arguments that were given, by `Argument.key`.
        program: the program and its arguments.
        command: the whole command line, for the manifest.
        echo: takes lines for people.

    Returns:
        The run folder.

    Raises:
        UsageError: an argument is for tracekit's own workloads.
        WorkloadError: the program failed, or trained too few steps to be recorded.
        StoreError: the run folder cannot be written.
    """
    plan = _plan(values)
    place = place_in(os.environ) or Place(0, 0, 1)
    now = datetime.datetime.now().astimezone()
    target: Path = (
        values.get("out") or Path("runs") / f"custom-{_stem(program)}-{now:%Y%m%dT%H%M%S}"
    )
    folder = run_folder(target, place, os.environ, force=bool(values.get("force")))
    with signals_as_interrupt():
        if place.rank != 0:
            _run_beside(folder, program, place)
            return target
        with folder:
            _prepare(folder, plan)
            wrapped = _Wrapped(folder, plan, program, command, echo)
            wrapped.run(place.world_size if place.world_size > 1 else None)
    return target


class _Wrapped:
    """A program that is being recorded into a run folder."""

    def __init__(
        self,
        folder: RunFolder,
        plan: LoopPlan,
        program: Sequence[str],
        command: Sequence[str],
        echo: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._plan = plan
        self._program = program
        self._command = command
        self._to_people = echo
        self._is_whole = False

    def run(self, rank_count: int | None) -> None:
        """Run the program to its end; the folder is made whole as soon as it can be.

        Args:
            rank_count: how many ranks there are, if a launcher told.
        """
        try:
            code = _run_program(self._program, self._folder.work, self._look)
        except KeyboardInterrupt:
            if self._is_whole:
                self._echo(f"the program was interrupted; {self._folder.target} is whole")
            raise
        if code != 0:
            raise _program_error(self._program, code, self._folder.target, is_whole=self._is_whole)
        if not self._is_whole:
            self._commit(self._last_reports(rank_count))

    def _echo(self, line: str) -> None:
        """Say something, on the terminal that the program writes to as well."""
        self._to_people(f"tracekit: {line}")

    def _look(self) -> None:
        """Make the folder whole if every rank has left its trace and goes on without us."""
        if self._is_whole:
            return
        reports = read_reports(self._folder.work)
        is_complete = bool(reports) and len(reports) == reports[0].world_size
        if is_complete and all(report.is_final and report.trace for report in reports):
            self._commit(reports)
            self._echo("the program runs on, unprofiled")

    def _last_reports(self, rank_count: int | None) -> list[LoopReport]:
        work = self._folder.work
        if rank_count is not None:
            return wait_for_reports(work, rank_count, WAIT_S)
        return read_reports(work)

    def _commit(self, reports: list[LoopReport]) -> None:
        target = self._folder.target
        if not reports:
            raise self._nothing_seen()
        for report in reports:
            if report.outcome != "ok":
                raise WorkloadError(
                    f"{shlex.join(self._program)}: rank {report.rank}: {report.reason}",
                    hint="ask for fewer with --warmup, --steps and --profile-steps",
                )
        check_ranks(target, [report.rank for report in reports], reports[0].world_size)
        run = make_manifest(reports, self._plan, self._command)
        self._folder.commit(run)
        self._is_whole = True
        for line in summary(run, target):
            self._echo(line)

    def _nothing_seen(self) -> WorkloadError:
        shown = shlex.join(self._program)
        unusable = self._folder.work / UNUSABLE
        if unusable.is_file():
            return WorkloadError(
                f"{shown}: its Python cannot load the collectors: {unusable.read_text('utf-8')}",
                hint="install tracekit where the program runs",
            )
        return WorkloadError(
            f"{shown}: no training step was seen: no optimizer of torch took a step after a "
            "module was called",
            hint="in a loop of another kind, use `with tracekit.collect(model=…) as step:`",
        )


def _plan(values: Mapping[str, Any]) -> LoopPlan:
    for key in values:
        if key not in _TAKEN:
            raise UsageError(
                f"--{key.replace('_', '-')} is for tracekit's own workloads; what comes after -- "
                "decides this itself"
            )
    if values["stage"] == "serve":
        raise UsageError("--stage serve cannot be given with a program: its training is recorded")
    counts = {key: values[key] for key in ("warmup", "steps", "profile_steps") if key in values}
    for key, count in counts.items():
        if count < 1:
            raise UsageError(f"--{key.replace('_', '-')} is {count}, but must be 1 or more")
    plan = LoopPlan(
        record_shapes=not values.get("no_shapes", False),
        with_stack=bool(values.get("with_stack")),
        profile_memory=bool(values.get("profile_memory")),
    )
    return dataclasses.replace(
        plan,
        warmup_count=counts.get("warmup", plan.warmup_count),
        measured_count=counts.get("steps", plan.measured_count),
        profiled_count=counts.get("profile_steps", plan.profiled_count),
    )


def _prepare(folder: RunFolder, plan: LoopPlan) -> None:
    """Write what the program's Python processes look for."""
    with disk_errors(folder.target):
        site = folder.work / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE, "utf-8")
        # Last: the other ranks wait for it.
        partial = folder.work / f"{PLAN}.partial"
        partial.write_text(json.dumps(dataclasses.asdict(plan)), "utf-8")
        partial.replace(folder.work / PLAN)


def _run_beside(folder: RunFolder, program: Sequence[str], place: Place) -> None:
    """Run the program as a rank whose folder rank 0 makes.

    Raises:
        WorkloadError: it failed, or rank 0 made no folder.
    """
    deadline = time.monotonic() + _START_S
    while not (folder.work / PLAN).is_file():
        if time.monotonic() > deadline:
            raise WorkloadError(f"{folder.target}: rank 0 made no run folder that this rank sees")
        time.sleep(_POLL_S)
    code = _run_program(program, folder.work, lambda: None)
    if code != 0:
        report = LoopReport(place.rank, place.world_size, outcome="failed", reason=_how(code))
        with contextlib.suppress(OSError):
            report.write(folder.work)
        raise _program_error(program, code, folder.target, is_whole=folder.target.exists())


def _run_program(program: Sequence[str], work: Path, look: Callable[[], None]) -> int:
    """Run a program to its end and return its exit code; negative for a signal.

    Raises:
        UsageError: it cannot be started.
    """
    paths = [str((work / "site").resolve()), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        VARIABLE: str(work.resolve()),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "6"),
    }
    try:
        process = subprocess.Popen(list(program), env=environment, start_new_session=True)
    except OSError as error:
        raise UsageError(f"{program[0]} cannot be started: {error.strerror}") from error
    try:
        while True:
            try:
                return process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                look()
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program if it still runs, and whatever it left running in its group."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if process.poll() is None:
            _signal_group(process, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S / 2)
    _signal_group(process, signal.SIGKILL)
    process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _program_error(
    program: Sequence[str], code: int, target: Path, *, is_whole: bool
) -> WorkloadError:
    hint = f"its own messages are above; {target} was not written"
    if is_whole:
        hint = f"it failed after it was recorded; {target} is whole"
    return WorkloadError(f"{shlex.join(program)}: the program ended with {_how(code)}", hint=hint)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _stem(program: Sequence[str]) -> str:
    """Return a short name for a program: that of its script."""
    for word in program:
        if word.endswith((".py", ".sh")):
            return Path(word).stem
    return Path(program[0]).name
