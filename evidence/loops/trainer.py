"""Transformers' Trainer; the word `compiled` compiles its model."""

import sys

import small
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments, set_seed


class Lines(TrainerCallback):
    """Prints a line a step."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        """Print the loss of a step."""
        if "loss" in logs:
            small.say(state.global_step - 1, float(logs["loss"]))


examples = [
    {"input_ids": ids, "labels": ids}
    for batch in small.batches(2 * small.STEPS, "cpu")
    for ids in batch.unbind()
]
set_seed(0)
trainer = Trainer(
    model=small.llama(),
    args=TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=small.BATCH,
        gradient_accumulation_steps=2,
        max_steps=small.STEPS,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=small.DEVICE == "cpu",
        disable_tqdm=True,
        torch_compile="compiled" in sys.argv,
    ),
    train_dataset=examples,
    callbacks=[Lines()],
)
trainer.remove_callback(PrinterCallback)
trainer.train()
