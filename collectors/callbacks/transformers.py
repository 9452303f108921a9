"""A callback for the Trainer of Transformers, and for those that are made of it (TRL's).

    from tracekit.collectors.callbacks.transformers import TracekitCallback

    trainer = Trainer(…, callbacks=[TracekitCallback(out="runs/mine")])

A step is one of the optimizer, whatever number of batches it accumulates. The Trainer tells its
callbacks nothing of an exception: a run that ended by one has its folder, with outcome `failed`,
when the program ends or the next training begins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from .called_loop import CalledLoop


class TracekitCallback(TrainerCallback):
    """Records the training of a Trainer as `tracekit.collect` does.

    Args:
        options: those of `tracekit.collect` (`out`, `warmup`, `steps`, `profile_steps`, `ranks`,
            `with_stack`, …) without the model and the optimizer.

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

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to record."""
        del args, state, control
        self._loop.begin(kwargs["model"])

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a step: the first of the batches that it accumulates."""
        del args, state, control, kwargs
        self._loop.begin_step()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End a step: the optimizer has taken it."""
        del args, state, control, kwargs
        self._loop.end_step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the record."""
        del args, state, control, kwargs
        self._loop.end()
