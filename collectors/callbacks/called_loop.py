"""Records the training loop of a trainer that invokes callbacks.

A trainer may call a wrapper or a part of its model. So the first step, a warm-up step, only shows
which models are called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from tracekit.errors import TracekitError

from ..loop.program_loop import at_exit, last_error
from ..progress import write_notice
from ..session import Collection, collect


class CalledLoop:
    """A loop whose trainer reports steps. Only `__init__` raises errors."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        # Validates the options, so that errors are raised before the training begins.
        collect(nn.Identity(), **{"out": "run", **self._options})
        self._collection: Collection | None = None
        self._is_open = self._has_step = False
        self._pid = 0

    @property
    def folder(self) -> Path | None:
        return None if self._collection is None else self._collection.folder

    def begin(self, model: nn.Module) -> None:
        if self._is_open:
            self.end(RuntimeError("the previous training ended without a final callback"))
        if not self._pid:
            at_exit(self._end_at_exit)
        self._pid = os.getpid()
        self._is_open = True
        self._collection = None
        self._guarded(lambda _: self._enter(model))

    def begin_step(self) -> None:
        if self._is_open and not self._has_step:
            self._has_step = True
            self._guarded(Collection.begin_step)

    def end_step(self) -> None:
        if self._has_step:
            self._has_step = False
            self._guarded(Collection.end_step)

    def end(self, error: BaseException | None = None) -> None:
        if self._is_open:
            self._guarded(lambda collection: collection.__exit__(None, error, None))
            self._is_open = self._has_step = False

    def _enter(self, model: nn.Module) -> None:
        collection = collect(model, **self._options)
        collection.looks_first = True
        self._collection = collection.__enter__()

    def _end_at_exit(self) -> None:
        """At process exit, end a loop that the trainer did not end, such as after an exception."""
        if self._is_open and os.getpid() == self._pid:
            error = last_error() or RuntimeError("the program ended before the training did")
            self._guarded(lambda collection: collection.end_at_exit(error))
            self.end(error)

    def _guarded(self, act: Callable[[Any], object]) -> None:
        try:
            act(self._collection)
        except Exception as error:  # noqa: BLE001 - errors must not reach the training
            reason = error.message if isinstance(error, TracekitError) else repr(error)
            write_notice(f"{reason}; the loop is not recorded")
            self._is_open = self._has_step = False
            collection, self._collection = self._collection, None
            if collection is not None:
                collection.__exit__(type(error), error, None)


class RecordingCallback:
    def __init__(self, **options: Any) -> None:
        self._loop = CalledLoop(options)

    @property
    def folder(self) -> Path | None:
        """The run folder, once this rank has written it."""
        return self._loop.folder
