"""`tracekit.collect(model=…)`: record a training loop of one's own, in two lines.

    with tracekit.collect(model=model) as step:
        for batch in step(loader):
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

or, where there is no loader, `with step(): …` around each step. Phases and modules are found by
hooks. The loop is not cut short: after the steps that are recorded it runs on as it was, and the
run folder is there. `step.is_done` tells when, for those who want to leave.

Under torchrun, deepspeed and the like every rank writes its trace into one folder, which rank 0
makes whole. The ranks meet through the file system alone, so there need be no process group; all of
them must see the folder.

A run folder is whole or absent. What goes wrong in the loop before the recorded steps are over
leaves none, except memory that runs out: that is a result and is recorded. What goes wrong later
changes nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from torch import nn

from tracekit.errors import UsageError, WorkloadError
from tracekit.manifest import Stage

from . import memory
from .distributed import Place, place_in
from .loop_plan import LoopPlan
from .loop_recorder import LoopRecorder
from .loop_report import make_manifest, summary, wait_for_reports
from .ranges import class_name, phase, unwrapped
from .run_folder import disk_errors
from .shared_folder import WAIT_S, check_ranks, run_folder

_T = TypeVar("_T")


def collect(
    model: nn.Module,
    optimizer: Any = None,
    *,
    out: str | Path | None = None,
    warmup: int = 2,
    steps: int = 5,
    profile_steps: int = 3,
    stage: Stage = "custom",
    name: str | None = None,
    record_shapes: bool = True,
    with_stack: bool = False,
    profile_memory: bool = False,
    all_threads: bool = False,
    force: bool = False,
) -> Collection:
    """Record a training loop: step times, a trace per rank, and a manifest.

    The loop must have `warmup + steps + 2 * profile_steps + 1` steps: those that do not count,
    those that are timed with nothing added, as many as are profiled with ranges alone to know what
    these cost, one for the profiler to warm up, and the profiled ones.

    Args:
        model: the model as the loop calls it, wrapped by DDP, FSDP, DeepSpeed or PEFT or not.
        optimizer: needed only if it is no `torch.optim.Optimizer` and no DeepSpeed engine.
        out: the run folder; `runs/custom-<class>-<time>` if None.
        warmup: steps that do not count.
        steps: timed steps.
        profile_steps: profiled steps.
        stage: what the manifest calls the run.
        name: the model's name in tables; its class if None.
        record_shapes: whether to keep the shapes of operators' arguments.
        with_stack: whether to keep Python stacks.
        profile_memory: whether to keep the allocator's events.
        all_threads: whether to see threads that the loop starts itself.
        force: whether to replace a run that `out` holds already.

    Returns:
        A context manager that gives the function `step`.

    Raises:
        UsageError: a count makes no sense, or the run folder exists.
        StoreError: the run folder cannot be written.
        WorkloadError: the trace cannot be written, or the loop ended too early.
    """
    for label, count, least in (
        ("warmup", warmup, 0),
        ("steps", steps, 1),
        ("profile_steps", profile_steps, 1),
    ):
        if count < least:
            raise UsageError(f"{label} is {count}, but must be {least} or more")
    plan = LoopPlan(
        warmup_count=warmup,
        measured_count=steps,
        profiled_count=profile_steps,
        stage=stage,
        name=name,
        record_shapes=record_shapes,
        with_stack=with_stack,
        profile_memory=profile_memory,
        all_threads=all_threads,
    )
    if out is None:
        now = datetime.datetime.now().astimezone()
        out = Path("runs") / f"{stage}-{name or class_name(unwrapped(model))}-{now:%Y%m%dT%H%M%S}"
    return Collection(plan, Path(out), model, optimizer, force=force)


class Collection:
    """A loop that is recorded; what `collect` returns and what its `with` block gives as `step`."""

    def __init__(
        self, plan: LoopPlan, target: Path, model: nn.Module, optimizer: Any, *, force: bool
    ) -> None:
        self.target = target
        self._plan = plan
        self._model = model
        self._optimizer = optimizer
        self._force = force
        self._place = place_in(os.environ) or Place(0, 0, 1)
        self._folder = run_folder(target, self._place, os.environ, force=force)
        self._recorder: LoopRecorder | None = None
        self._stack = contextlib.ExitStack()
        self._is_whole = False

    def __enter__(self) -> Self:
        if self._place.rank == 0:
            self._stack.enter_context(_sigterm_as_exit())
            self._stack.enter_context(self._folder)
        self._recorder = LoopRecorder(
            self._plan, self._place, self._folder.path, [self._model], self._optimizer
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The folder goes with the stack unless it was made whole before.
        with self._stack:
            if error is None:
                self._finish()
            elif not self._is_whole:
                self._fail(error)

    @overload
    def __call__(self) -> contextlib.AbstractContextManager[None]: ...
    @overload
    def __call__(self, batches: Iterable[_T]) -> Iterator[_T]: ...

    def __call__(self, batches: Iterable[_T] | None = None) -> Any:
        """Return the range of one step, or an iterator that makes a step of every batch.

        Args:
            batches: what the loop goes through; getting one is the phase `data` of its step.
        """
        return self._one_step() if batches is None else self._each(batches)

    @property
    def is_done(self) -> bool:
        """Whether all steps are recorded and the run folder is there."""
        return self._is_whole

    @contextlib.contextmanager
    def _one_step(self) -> Iterator[None]:
        recorder = self._entered()
        recorder.begin_step()
        yield
        self._end_step(recorder)

    def _each(self, batches: Iterable[_T]) -> Iterator[_T]:
        recorder = self._entered()
        source = iter(batches)
        while True:
            recorder.begin_step()
            try:
                with phase("data") if recorder.is_ranged else contextlib.nullcontext():
                    batch = next(source)
            except StopIteration:
                recorder.cancel_step()
                return
            yield batch
            self._end_step(recorder)

    def _entered(self) -> LoopRecorder:
        if self._recorder is None:
            raise UsageError("tracekit.collect(…) is not a step: use it as `with … as step:` first")
        return self._recorder

    def _end_step(self, recorder: LoopRecorder) -> None:
        was_done = recorder.is_done
        recorder.end_step()
        if recorder.is_done and not was_done:
            self._finish()

    def _finish(self) -> None:
        """Make the run folder whole, as soon as what belongs into it is there."""
        if self._is_whole:
            return
        recorder = self._entered()
        recorder.close()
        report = recorder.report
        if report.trace is None:
            report.outcome = "failed"
            report.reason = self._plan.too_few(report.step_count)
        self._write_report()
        if report.trace is None:
            raise WorkloadError(
                f"{self.target}: {report.reason}", hint="run more steps, or ask for fewer"
            )
        if self._place.rank == 0:
            self._commit()
        self._is_whole = True

    def _commit(self) -> None:
        count = self._place.world_size
        reports = wait_for_reports(self._folder.work, count, WAIT_S)
        check_ranks(self.target, [report.rank for report in reports], count)
        for report in reports:
            if report.outcome != "ok":
                raise WorkloadError(f"{self.target}: rank {report.rank}: {report.reason}")
        run = make_manifest(reports, self._plan, [sys.executable, *sys.argv])
        self._folder.commit(run)
        for line in summary(run, self.target):
            sys.stderr.write(f"tracekit: {line}\n")

    def _fail(self, error: BaseException) -> None:
        """Leave the loop as it was; record that memory ran out, and nothing else."""
        recorder = self._entered()
        recorder.abandon()
        report = recorder.report
        is_out_of_memory = memory.is_out_of_memory(error)
        report.outcome = "oom" if is_out_of_memory else "failed"
        report.reason = f"{type(error).__name__}: {error}"
        if is_out_of_memory:
            report.reason = memory.out_of_memory_reason(error)
        report.trace = None
        with contextlib.suppress(OSError):  # rank 0 may have gone first, and the folder with it
            report.write(self._folder.work)
        if is_out_of_memory and self._place.rank == 0:
            run = make_manifest(
                [report],
                self._plan,
                [sys.executable, *sys.argv],
                outcome="oom",
                reason=f"rank 0: {report.reason}",
            )
            self._folder.commit(run)

    def _write_report(self) -> None:
        if self._recorder is not None:
            self._recorder.report.is_final = True
            with disk_errors(self.target):
                self._recorder.report.write(self._folder.work)


@contextlib.contextmanager
def _sigterm_as_exit() -> Iterator[None]:
    """Let SIGTERM unwind the program, so that nothing is left, if it would just end it."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    restore: Callable[[], object] = lambda: None  # noqa: E731
    with contextlib.suppress(ValueError):  # not in the main thread
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, leave)
            restore = lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL)  # noqa: E731
    try:
        yield
    finally:
        restore()
