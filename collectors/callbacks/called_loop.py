"""The loop of a trainer that calls back, recorded by the engine of `tracekit.collect`.

What such a trainer calls is not always the model that it was given: it wraps it first, or calls a
part of it. So the first step only shows which models are called; the record begins with the second.
The first counts as one that warms up, and the numbers of steps are those of the trainer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from tracekit.errors import TracekitError

from ..calls.beside_dynamo import IS_POSSIBLE
from ..command.notice import write_notice
from ..loop.program_loop import at_exit, last_error
from ..loop.trained_models import outermost
from ..loop.watch import LoopWatch, Observer
from ..session import Collection, collect


class CalledLoop(Observer):
    """A loop whose trainer says where its steps are: `begin`, steps, `end`.

    Nothing that goes wrong after `__init__` is raised: the trainer goes on, and stderr has a line.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        # Tried once, so that a wrong option is said before anything is trained.
        collect(nn.Identity(), **{"out": "run", **self._options})
        self._collection: Collection | None = None
        self._model: nn.Module | None = None
        self._watch: LoopWatch | None = None
        self._called: dict[nn.Module, None] = {}
        self._is_open = self._has_step = False
        self._pid = 0

    @property
    def folder(self) -> Path | None:
        """The run folder, once this rank has made it."""
        return None if self._collection is None else self._collection.folder

    def begin(self, model: nn.Module) -> None:
        """Begin to look at a loop; `model` is what is trained if nothing is seen to be called."""
        if self._is_open:
            self.end(RuntimeError("the training before this one ended without a word"))
        self._guarded(lambda: self._begin(model))

    def begin_step(self) -> None:
        """Begin a step, unless one is open."""
        if self._is_open and not self._has_step:
            self._has_step = True
            if self._collection is not None:
                self._guarded(self._collection.begin_step)

    def end_step(self) -> None:
        """End the step that is open, if any: the first shows what is called."""
        if self._has_step:
            self._has_step = False
            self._guarded(self._open if self._collection is None else self._collection.end_step)

    def end(self, error: BaseException | None = None) -> None:
        """End the loop, which an error may have ended: the run folder is there afterwards."""
        if self._is_open:
            self._guarded(lambda: self._end(error))
            self._is_open = False
            self._forget()

    def root_begins(self, module: nn.Module, kind: str, *_: Any) -> None:
        """Remember what is called for training in the first step."""
        if kind == "training" and self._has_step:
            self._called[module] = None

    def failed(self, _error: Exception) -> None:
        """Go on without what could not be seen: the model that was given is recorded."""
        self._called.clear()

    def _begin(self, model: nn.Module) -> None:
        if not self._pid:
            at_exit(self._ended_without_a_word)
        self._pid = os.getpid()
        self._model = model
        self._collection = None
        self._is_open = True
        if IS_POSSIBLE:
            self._watch = LoopWatch(self, finds_steps=False)
            self._watch.start()

    def _open(self) -> Collection:
        """Begin to record, now that it is known what is called."""
        found = outermost(list(self._called))
        model = found[0] if found else self._model
        self._forget()
        assert model is not None
        collection = collect(model, **self._options)
        collection.__enter__()
        if collection.recorder is not None:
            collection.recorder.skip_first()
        self._collection = collection
        return collection

    def _end(self, error: BaseException | None) -> None:
        # A loop without a step leaves a folder that says so.
        collection = self._collection or self._open()
        collection.__exit__(
            None if error is None else type(error),
            error,
            None if error is None else error.__traceback__,
        )

    def _forget(self) -> None:
        """Keep nothing of the trainer's alive that is not needed any more."""
        if self._watch is not None:
            self._watch.stop()
        self._watch = self._model = None
        self._has_step = False
        self._called.clear()

    def _ended_without_a_word(self) -> None:
        """End a loop at the end of its process that its trainer left by an exception."""
        if self._is_open and os.getpid() == self._pid:
            error = last_error() or RuntimeError("the program ended before the training did")
            collection = self._collection
            if collection is not None:
                self._guarded(lambda: collection.end_at_exit(error))
            self.end(error)

    def _guarded(self, function: Callable[[], object]) -> None:
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


class RecordingCallback:
    """What the callbacks of trainers have in common: their options, and the run folder.

    Raises:
        UsageError: an option makes no sense.
        TypeError: there is no such option.
    """

    def __init__(self, **options: Any) -> None:
        self._loop = CalledLoop(options)

    @property
    def folder(self) -> Path | None:
        """The run folder, once this rank has made it."""
        return self._loop.folder
