"""A callback for the Trainer of Lightning (`lightning` or `pytorch_lightning`).

    from tracekit.collectors.callbacks.lightning import TracekitCallback

    trainer = lightning.Trainer(…, callbacks=[TracekitCallback(out="runs/mine")])

A step is what goes on until an optimizer has stepped: with `accumulate_grad_batches` several
batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .called_loop import CalledLoop

if TYPE_CHECKING:
    Callback: Any = object
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback


class TracekitCallback(Callback):
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
        # How many steps the optimizers had taken when this one began.
        self._steps_before: int | None = None

    @property
    def folder(self) -> Path | None:
        """The run folder, once this rank has made it."""
        return self._loop.folder

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to record."""
        del trainer
        self._steps_before = None
        self._loop.begin(pl_module)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Begin a step, or go on with one."""
        del pl_module, batch, batch_idx
        if self._steps_before is None:
            self._steps_before = trainer.global_step
            self._loop.begin_step()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End a step, if an optimizer has stepped."""
        del pl_module, outputs, batch, batch_idx
        if trainer.global_step != self._steps_before:
            self._steps_before = None
            self._loop.end_step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End the record."""
        del trainer, pl_module
        self._loop.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the record of a training that has failed."""
        del trainer, pl_module
        self._loop.end(exception)
