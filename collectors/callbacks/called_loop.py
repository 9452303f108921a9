"""The loop of a trainer that calls back, recorded by the engine of `tracekit.collect`.

What such a trainer calls is not always the model that it was given: it wraps it first, or calls a
part of it. So the first step only shows which models are called; the record begins with the second.
The first counts as one that warms up, and the numbers of steps are those of the trainer.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from tracekit.errors import TracekitError

from ..calls.beside_dynamo import IS_POSSIBLE
from ..command.notice import write_notice
from ..loop.program_loop import at_exit
from ..loop.trained_models import outermost
from ..loop.watch import LoopWatch
from ..session import Collection, collect


class CalledLoop:
    """A loop whose trainer says where its steps are: `begin`, steps, `end`.

    Nothing that goes wrong after `__init__` is raised: the trainer goes on, and stderr has a line.

    Args:
        options: those of `tracekit.collect` without the model and the optimizer.

    Raises:
        UsageError: an option makes no sense.
        TypeError: there is no such option.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        # Tried once, so that a wrong option is said before anything is trained.
        collect(nn.Identity(), **{"out": "run", **self._options})
        self._collection: Collection | None = None
        self._step: contextlib.AbstractContextManager[None] | None = None
        self._model: nn.Module | None = None
        self._watch: LoopWatch | None = None
        self._called: dict[nn.Module, None] = {}
        self._is_open = False
        self._is_first = False
        self._pid = 0

    @property
    def folder(self) -> Path | None:
        """The run folder, once this rank has made it."""
        return None if self._collection is None else self._collection.folder

    def begin(self, model: nn.Module) -> None:
        """Begin to look at a loop.

        Args:
            model: what is trained, if nothing is seen to be called.
        """
        if self._is_open:
            self.end(RuntimeError("the training before this one ended without a word"))
        self._guarded(lambda: self._begin(model))

    def begin_step(self) -> None:
        """Begin a step, unless one is open."""
        if self._is_open and self._step is None:
            self._guarded(self._begin_step)

    def end_step(self) -> None:
        """End the step that is open, if any."""
        if self._step is not None:
            self._guarded(self._end_step)

    def end(self, error: BaseException | None = None) -> None:
        """End the loop: the run folder is there afterwards.

        Args:
            error: what ended it, if it did not end by itself.
        """
        if self._is_open:
            self._guarded(lambda: self._end(error))
            self._is_open = False
            self._forget()

    def root_begins(
        self, module: nn.Module, kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Remember what is called for training in the first step."""
        del args, kwargs
        if kind == "training" and self._step is not None:
            self._called[module] = None

    def root_ended(self, module: nn.Module, kind: str) -> None:
        """Do nothing."""

    def inner_begins(self) -> None:
        """Do nothing."""

    def step_is_over(self, *, is_part: bool) -> None:
        """Do nothing: the trainer says where its steps are."""

    def loop_begins(self, called: list[nn.Module]) -> None:
        """Do nothing: the caller says where the loop is."""

    def optimizer_stepped(self, parameter: Any) -> None:
        """Do nothing: the trainer says where its steps are."""

    def failed(self, error: Exception) -> None:
        """Go on without what could not be seen: the model that was given is recorded."""
        del error
        self._called.clear()

    def _begin(self, model: nn.Module) -> None:
        if not self._pid:
            at_exit(self._ended_without_a_word)
        self._pid = os.getpid()
        self._model = model
        self._collection = None
        self._is_open = self._is_first = True
        if IS_POSSIBLE:
            self._watch = LoopWatch(self, finds_steps=False)
            self._watch.start()

    def _begin_step(self) -> None:
        if self._is_first:
            self._step = contextlib.nullcontext()
        elif self._collection is not None:
            self._step = self._collection()
            self._step.__enter__()

    def _end_step(self) -> None:
        step, self._step = self._step, None
        if self._is_first:
            self._is_first = False
            self._open()
        elif step is not None:
            step.__exit__(None, None, None)

    def _open(self) -> None:
        """Begin to record, now that it is known what is called."""
        found = outermost(list(self._called))
        model = found[0] if found else self._model
        self._forget()
        assert model is not None
        collection = collect(model, **self._options)
        collection.__enter__()
        recorder = collection._recorder
        if recorder is not None:
            recorder.report.step_count = 1
            recorder._planned = min(1, recorder.plan.warmup_count)
        self._collection = collection

    def _end(self, error: BaseException | None) -> None:
        if self._is_first:
            self._open()  # a loop without a step leaves a folder that says so
        if self._collection is not None:
            kind = None if error is None else type(error)
            trace = None if error is None else error.__traceback__
            self._collection.__exit__(kind, error, trace)

    def _forget(self) -> None:
        """Keep nothing of the trainer's alive that is not needed any more."""
        if self._watch is not None:
            self._watch.stop()
        self._watch = self._model = self._step = None
        self._called.clear()

    def _ended_without_a_word(self) -> None:
        """End a loop at the end of its process that its trainer left by an exception."""
        if self._is_open and os.getpid() == self._pid:
            error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
            if not isinstance(error, BaseException):
                error = RuntimeError("the program ended before the training did")
            self._guarded(lambda: self._finish_here(error))
            self.end(error)

    def _finish_here(self, error: BaseException) -> None:
        """Finish as the collection does, but on this thread: at exit there can be no other."""
        recorder = None if self._collection is None else self._collection._recorder
        if self._collection is not None and recorder is not None and not recorder.is_done:
            recorder.close()
            recorder.report.note_error(error)
            self._collection._make_folder()

    def _guarded(self, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:  # noqa: BLE001 - the training must not fail for us
            reason = error.message if isinstance(error, TracekitError) else repr(error)
            write_notice(f"{reason}; the loop is not recorded")
            self._is_open = False
            collection, self._collection = self._collection, None
            self._forget()
            if collection is not None:
                collection.__exit__(type(error), error, error.__traceback__)
