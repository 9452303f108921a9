"""`tracekit.collect(model=…)`: records your own training loop.

    with tracekit.collect(model=model) as step:
        for batch in step(loader):
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

or, without a loader, `with step(): …` around each step. Phases and modules are detected. After the
recorded steps, the loop continues unchanged. To leave it early, check `step.is_done`, which is True
once recording is complete. The run folder exists at the end of the block.

Under torchrun, deepspeed, and similar launchers, every rank writes its trace to a working folder of
its node, and the last rank builds the run folder. Ranks do not wait for each other inside the loop.
Nodes that share a disk write one folder, and other nodes one each.

Errors in the loop are raised unchanged, and the run folder has outcome `failed` or `oom` with the
results so far. Errors of the recording are reported once on stderr.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar, overload

from torch import nn

from tracekit.errors import TracekitError, UsageError
from tracekit.manifest import Manifest, Outcome, Stage

from .calls import module_calls, training_hooks
from .calls.dynamo_bypass import IS_POSSIBLE
from .calls.module_paths import class_name, unwrapped
from .loop.folder import LoopFolder
from .loop.plan import LoopPlan, check_ranks
from .loop.program_loop import defer_to_program
from .loop.recorder import LoopRecorder
from .loop.report import LoopReport, first_failure, read_reports, summary
from .loop.trained_models import outermost
from .loop.watch import LoopWatch, Observer
from .process.distributed import Place
from .process.job import current_place, job_id, local_rank_count
from .profiler.loop_profilers import LoopProfilers
from .progress import write_notice
from .run.folder import check_replaceable, default_target, host_mark

_T = TypeVar("_T")

_entered: weakref.WeakSet[Collection] = weakref.WeakSet()

_WAIT_S = 10.0
"""Time for which the first rank of a node waits for the others at the end of the block."""

_FAILED_WAIT_S = 1.0
_POLL_S = 0.05


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
    ranks: str | None = None,
    record_shapes: bool = True,
    with_stack: bool = False,
    with_flops: bool = False,
    profile_memory: bool = False,
    all_threads: bool = False,
    backward_ranges: bool = False,
    nvtx: bool = False,
    light_steps: bool = True,
    force: bool = False,
) -> Collection:
    """Record a training loop: step times, a trace per rank, and a manifest.

    The loop must have `warmup + steps + 2 * profile_steps + 1` steps: warm-up steps, timed steps
    without ranges or profiler, steps with ranges only, one profiler warm-up step, and profiled
    steps. Of further steps, some are timed.

    Args:
        model: the module that the loop calls, or the engine around it (DDP, FSDP, DeepSpeed, PEFT,
            a compiled one).
        optimizer: an optimizer that is not a `torch.optim.Optimizer`, if any; its `step()` becomes
            the phase `optimizer`.
        out: the run folder; `runs/<stage>-<model>-<time>` if None.
        warmup: number of warm-up steps.
        steps: number of timed steps.
        profile_steps: number of profiled steps.
        stage: stage of the run in the manifest.
        name: the model's name in tables; its class if None.
        ranks: ranks that write a trace: `0,8,16-23`, `first-of-node`, or `all`; None means all
            ranks if there are at most eight, else the first rank of each node.
        record_shapes: whether to record the shapes of op arguments.
        with_stack: whether to record Python stacks.
        with_flops: whether the profiler counts floating-point operations itself.
        profile_memory: whether to record allocator events.
        all_threads: whether to record threads that the loop starts itself.
        backward_ranges: whether modules also have ranges in backward passes. They use tensor hooks,
        which slow down the passes. Analyses attribute backward work to modules without them.
        nvtx: whether ranges are also NVTX ranges, as they always are under Nsight.
        light_steps: whether steps with only device activity follow the profiled ones on an
            accelerator.
        force: whether to replace an existing run in `out`.

    Returns:
        A context manager that returns the function `step`.

    Raises:
        UsageError: the model is not a module, a count is invalid, or the run folder exists.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is {model!r:.80}, expected a torch.nn.Module")
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
        after_count=steps,
        profiled_count=profile_steps,
        stage=stage,
        name=name,
        profiler={
            "record_shapes": record_shapes,
            "with_stack": with_stack,
            "with_flops": with_flops,
            "profile_memory": profile_memory,
            "all_threads": all_threads,
        },
        has_backward_ranges=backward_ranges,
        has_nvtx=nvtx,
        has_light_steps=light_steps,
        ranks=None if ranks is None else check_ranks(ranks),
    )
    if out is None:
        out = default_target(stage, name or class_name(unwrapped(model)))
    return Collection(plan, Path(out), model, optimizer, force=force)


class Collection(Observer):
    """A recorded loop: the result of `collect`, and `step` in its `with` block.

    With several ranks, `folder` differs from `target` if another run already has that name. With
    `looks_first`, the first step, a warm-up step, only shows which models the loop calls: possibly
    a wrapper or parts of `model`.
    """

    looks_first = False

    def __init__(
        self, plan: LoopPlan, target: Path, model: nn.Module, optimizer: Any, *, force: bool
    ) -> None:
        self.target = target
        self._plan = plan
        self._model: Any = model
        self._optimizer = optimizer
        # Models called for training in the first step, while `looks_first` collects them.
        self._called: dict[nn.Module, None] | None = None
        self._place = Place(0, 0, 1)
        self._force = force
        self._folder: LoopFolder | None = None
        self._watch = LoopWatch(self, "reported")
        self._finisher: threading.Thread | None = None
        self._run: Manifest | None = None

    @property
    def folder(self) -> Path | None:
        """The run folder, once this rank has written it."""
        return None if self._folder is None else self._folder.final_path

    def __enter__(self) -> Self:
        self._place = current_place()
        is_alone = self._place.world_size == 1
        if is_alone:
            check_replaceable(self.target, force=self._force)
        mark = f"{os.getpid() if is_alone else job_id()[:16]}.{host_mark()}"
        self._folder = LoopFolder(
            self.target,
            self._plan,
            [sys.executable, *sys.argv],
            mark,
            force=self._force and is_alone,
        )
        try:
            self._folder.open()
        except TracekitError as error:
            write_notice(f"{error.message}; the loop is not recorded")
            return self
        if not IS_POSSIBLE:
            write_notice(
                "this torch version cannot be recorded together with torch.compile; the "
                "loop is not recorded"
            )
            return self
        defer_to_program()
        _entered.add(self)
        self._profilers = LoopProfilers()
        self._profilers.attach()
        if self.looks_first:
            self._called = {}
        else:
            self._record(self._folder, self._model)
        self._watch.start()
        return self

    def _record(self, folder: LoopFolder, model: nn.Module) -> LoopRecorder:
        self._called = None
        self.recorder = LoopRecorder(
            self._plan,
            self._place,
            folder.path,
            [model],
            self._watch,
            self._profilers,
            self._publish,
            self._optimizer,
        )
        return self.recorder

    def _record_called(self, folder: LoopFolder, called: dict[nn.Module, None]) -> None:
        self._watch.stop()
        self._watch = LoopWatch(self, "reported")
        model = next(iter(outermost(list(called))), self._model)
        self._record(folder, model).skip_first()
        self._watch.start()

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            self._leave(error)
        except Exception as problem:  # noqa: BLE001 - errors must not reach the loop
            write_notice(f"the run folder was not written: {type(problem).__name__}: {problem}")
        # Drop references, so that the program can free the memory of its model.
        self._model = self._optimizer = None

    @overload
    def __call__(self) -> contextlib.AbstractContextManager[None]: ...
    @overload
    def __call__(self, batches: Iterable[_T]) -> Iterator[_T]: ...

    def __call__(self, batches: Iterable[_T] | None = None) -> Any:
        """Return the context manager of one step, or an iterator that makes each batch a step.

        Args:
            batches: the loop's data; fetching a batch is the phase `data` of its step.
        """
        return self._one_step() if batches is None else self._each(batches)

    @property
    def is_done(self) -> bool:
        """Whether all steps are recorded; the run folder exists when the block ends."""
        return self.recorder is None or self.recorder.is_done

    def training_call_begins(self, module: nn.Module, *_: Any) -> None:
        if self._called is not None:
            self._called[module] = None

    def failed(self, error: Exception) -> None:
        self._watch.stop()
        if self.recorder is not None and not self.recorder.is_done:
            self.recorder.failed(error)
            write_notice(f"recording stopped: {self.recorder.report.notes[-1]}")

    @contextlib.contextmanager
    def _one_step(self) -> Iterator[None]:
        self.begin_step()
        yield
        self.end_step()

    def _each(self, batches: Iterable[_T]) -> Iterator[_T]:
        source = iter(batches)
        while True:
            self.begin_step()
            recorder = self.recorder
            try:
                with recorder.phase("data") if recorder else contextlib.nullcontext():
                    batch = next(source)
            except StopIteration:
                if recorder is not None:
                    recorder.cancel_step()
                return
            yield batch
            self.end_step()

    def begin_step(self) -> None:
        """Begin a step, for loops without a block or iterator."""
        if self._folder is None:
            raise UsageError("tracekit.collect(…) is not a step: use it as `with … as step:` first")
        recorder = self.recorder
        if self._called is not None:
            self._called.clear()
        if recorder is None or recorder.is_done or self._watch.thread.is_elsewhere:
            return
        self._watch.thread.bind(recorder.thread_ended)
        self._watch.steps.begin()
        try:
            recorder.begin_step()
        except Exception as error:  # noqa: BLE001 - errors must not reach the loop
            self.failed(error)

    def end_step(self) -> None:
        """End a step; after the last recorded step, build the run folder in the background."""
        recorder = self.recorder
        if self._called is not None and self._folder is not None:
            self._record_called(self._folder, self._called)
        if recorder is None or recorder.is_done or self._watch.thread.is_elsewhere:
            return
        try:
            recorder.end_step()
        except Exception as error:  # noqa: BLE001
            self.failed(error)
        if self.is_done:
            self._watch.stop()
            self._finish()

    def end_at_exit(self, error: BaseException) -> None:
        recorder = self._recorder_at_end()
        if recorder is not None and not recorder.is_done:
            recorder.close()
            recorder.report.note_error(error)
            self._make_folder()

    def leave_to_parent(self) -> None:
        if self.recorder is not None:
            self.recorder.leave()
        self.recorder = self._called = None

    def _recorder_at_end(self) -> LoopRecorder | None:
        if self._called is not None and self._folder is not None:
            return self._record(self._folder, self._model)
        return self.recorder

    def _finish(self) -> None:
        if self._finisher is None:
            self._finisher = threading.Thread(target=self._make_folder, name="tracekit")
            self._finisher.start()

    def _make_folder(self) -> None:
        try:
            if self.recorder is not None:
                self.recorder.report.finalize(self._plan)
            self._publish()
            self._commit_if_last()
        except Exception as error:  # noqa: BLE001
            write_notice(f"the run folder was not written: {error}")

    def _leave(self, error: BaseException | None) -> None:
        recorder, folder = self._recorder_at_end(), self._folder
        self._watch.stop()
        if recorder is None or folder is None:
            return
        is_recorded = recorder.is_past_profiled_steps
        recorder.close()
        if error is not None:
            recorder.report.note_error(error)
            if is_recorded:
                recorder.report.reason = (
                    f"{recorder.report.reason}, after the recording was complete"
                )
        self._finish()
        if self._finisher is not None:
            self._finisher.join()
        if error is not None and self._run is not None and self._run.outcome == "ok":
            report = recorder.report
            reason = f"rank {report.rank}: {report.reason}, after the recording was complete"
            folder.end(self._run, None, report.outcome, reason)
        if folder.final_path is None and (self._place.local_rank == 0 or error is not None):
            wait_s = _FAILED_WAIT_S if error is not None else _WAIT_S
            deadline = time.monotonic() + wait_s
            while folder.path.exists() and time.monotonic() < deadline:
                if self._commit_if_last():
                    return
                time.sleep(_POLL_S)
            self._commit([one for one in read_reports(folder.work, LoopReport) if one.is_final])

    def _commit_if_last(self) -> bool:
        assert self._folder is not None
        reports = read_reports(self._folder.work, LoopReport)
        expected = 1 if self._place.world_size == 1 else local_rank_count(os.environ) or 1
        if len(reports) < expected or not all(report.is_final for report in reports):
            return False
        return self._commit(reports)

    def _commit(self, reports: list[LoopReport]) -> bool:
        folder = self._folder
        if folder is None or not reports:
            return False
        try:
            (folder.work / "committed").mkdir()  # atomic: succeeds for only one rank
        except OSError:
            return folder.final_path is not None or not folder.path.exists()
        failed = first_failure(reports)
        outcome: Outcome = "ok" if failed is None else failed.outcome
        reason = None if failed is None else f"rank {failed.rank}: {failed.reason}"
        try:
            run = self._run = folder.commit(reports, outcome, reason)
        finally:
            folder.close()
        if reason is not None:
            write_notice(reason)
        for line in summary(run, folder.final_path or folder.target):
            write_notice(line)
        return True

    def _publish(self) -> None:
        if self.recorder is not None and self._folder is not None:
            with contextlib.suppress(OSError):  # another rank may have created the run folder
                self.recorder.report.write(self._folder.work)


def _forked() -> None:
    if _entered:
        module_calls.forget_all()
        training_hooks.forget_all()
        for collection in _entered:
            collection.leave_to_parent()


os.register_at_fork(after_in_child=_forked)
