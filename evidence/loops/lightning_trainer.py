"""Lightning's Trainer."""

import logging
import warnings

import lightning
import small
from torch.utils.data import DataLoader

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Task(lightning.LightningModule):
    """Trains the decoder."""

    def __init__(self):
        super().__init__()
        self.decoder = small.decoder()

    def training_step(self, batch, number):
        """Return the loss of a batch."""
        return small.loss_of(self.decoder(batch), batch)

    def on_train_batch_end(self, outputs, batch, number):
        """Print the step."""
        small.say(number, outputs["loss"])

    def configure_optimizers(self):
        """Return AdamW."""
        return small.optimizer_of(self)


trainer = lightning.Trainer(
    max_steps=small.STEPS,
    accelerator="gpu" if small.DEVICE == "cuda" else "cpu",
    devices=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Task(), DataLoader(list(small.batches(small.STEPS, "cpu")), batch_size=None))
