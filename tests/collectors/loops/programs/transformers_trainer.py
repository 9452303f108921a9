"""Transformers' Trainer: two micro-batches per step, an evaluation every fourth step.

Words: `compiled BACKEND` compiles the model, `callback` adds tracekit's callback.
"""

import sys

import tiny

for name in ("bitsandbytes", "datasets", "deepspeed", "peft"):
    sys.modules[name] = None  # what the Trainer imports if it is there takes longer than the loop

from transformers import (  # noqa: E402
    PrinterCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

compiled = sys.argv[1:2] == ["compiled"]
examples = [
    {"input_ids": ids, "labels": ids}
    for batch in tiny.batches(2 * tiny.STEPS, device="cpu")
    for ids in batch.unbind()
]
options = {"torch_compile": True, "torch_compile_backend": sys.argv[2]} if compiled else {}
callbacks = [tiny.lines()]
if "callback" in sys.argv:
    from tracekit.collectors.callbacks.transformers import TracekitCallback

    callbacks.append(TracekitCallback(out="run", warmup=1, steps=2, profile_steps=2))
set_seed(0)
trainer = Trainer(
    model=tiny.llama(),
    args=TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=tiny.BATCH,
        per_device_eval_batch_size=tiny.BATCH,
        gradient_accumulation_steps=2,
        max_steps=tiny.STEPS,
        eval_strategy="steps",
        eval_steps=4,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=tiny.DEVICE == "cpu",
        disable_tqdm=True,
        **options,
    ),
    train_dataset=examples,
    eval_dataset=examples[:4],
    callbacks=callbacks,
)
trainer.remove_callback(PrinterCallback)
trainer.train()
if compiled:
    tiny.tell_compiled()
