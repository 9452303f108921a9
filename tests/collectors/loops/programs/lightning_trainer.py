"""Lightning's Trainer.

Words: `validation`, `profiler`, `callback` (tracekit's), and `accumulating` (two batches per step).
"""

import logging
import sys
import warnings

import lightning
import tiny
import torch
from torch.utils.data import DataLoader

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Task(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.decoder = tiny.decoder()

    def training_step(self, batch, number):
        return tiny.loss_of(self.decoder(batch), batch)

    def validation_step(self, batch, number):
        tiny.tell(f"validation {tiny.loss_of(self.decoder(batch), batch).item():.7g}")

    def on_before_optimizer_step(self, optimizer):
        with tiny.marked(self.global_step):
            pass

    def on_train_batch_end(self, outputs, batch, number):
        tiny.say(number, outputs["loss"])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def loader(count, seed):
    return DataLoader(list(tiny.batches(count, seed)), batch_size=None)


validation = loader(2, 2) if "validation" in sys.argv else None
callbacks = []
if "callback" in sys.argv:
    from tracekit.collectors.callbacks.lightning import TracekitCallback

    callbacks.append(TracekitCallback(out="run", warmup=1, steps=2, profile_steps=2))
batch_count = 2 if "accumulating" in sys.argv else 1
trainer = lightning.Trainer(
    max_steps=tiny.STEPS,
    accelerator="cpu" if tiny.DEVICE == "cpu" else "gpu",
    devices=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    num_sanity_val_steps=0,
    check_val_every_n_epoch=None,
    val_check_interval=4,
    accumulate_grad_batches=batch_count,
    callbacks=callbacks,
    profiler="pytorch" if "profiler" in sys.argv else None,
)
trainer.fit(Task(), loader(batch_count * tiny.STEPS, 1), validation)
