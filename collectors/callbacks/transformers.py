"""Callback for Transformers' Trainer and trainers derived from it (TRL).

    from tracekit.collectors.callbacks.transformers import TracekitCallback

    trainer = Trainer(…, callbacks=[TracekitCallback(out="runs/mine")])

A step is an optimizer step, regardless of the number of batches that it accumulates. The Trainer
does not report exceptions to callbacks. So after an exception, the run folder with outcome `failed`
is written when the program ends or the next training begins.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from .called_loop import RecordingCallback


class TracekitCallback(RecordingCallback, TrainerCallback):
    """Records the training of a Trainer like `tracekit.collect`.

    It takes the same options (`out`, `warmup`, `steps`, `profile_steps`, `ranks`, `with_stack`, …)
    except the model and the optimizer.
    """

    def on_train_begin(self, *_: Any, **kwargs: Any) -> None:
        self._loop.begin(kwargs["model"])

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._loop.begin_step()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._loop.end_step()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._loop.end()
