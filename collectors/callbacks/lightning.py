"""Callback for Lightning's Trainer (`lightning` or `pytorch_lightning`).

    from tracekit.collectors.callbacks.lightning import TracekitCallback

    trainer = lightning.Trainer(…, callbacks=[TracekitCallback(out="runs/mine")])

A step ends with an optimizer step; with `accumulate_grad_batches`, it contains several batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .called_loop import RecordingCallback

if TYPE_CHECKING:
    Callback: Any = object
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback


class TracekitCallback(RecordingCallback, Callback):
    """Records the training of a Trainer like `tracekit.collect`.

    It takes the same options (`out`, `warmup`, `steps`, `profile_steps`, `ranks`, `with_stack`, …)
    except the model and the optimizer.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # Number of optimizer steps at the beginning of the current step.
        self._steps_before: int | None = None

    def on_train_start(self, _trainer: Any, pl_module: Any) -> None:
        self._steps_before = None
        self._loop.begin(pl_module)

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if self._steps_before is None:
            self._steps_before = trainer.global_step
            self._loop.begin_step()

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step != self._steps_before:
            self._steps_before = None
            self._loop.end_step()

    def on_train_end(self, *_: Any) -> None:
        self._loop.end()

    def on_exception(self, _trainer: Any, _pl_module: Any, exception: BaseException) -> None:
        self._loop.end(exception)
