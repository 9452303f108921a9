"""TRL's SFTTrainer on a tokenized data set."""

import tiny
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, PrinterCallback
from trl import SFTConfig, SFTTrainer

words = {f"w{number}": number for number in range(tiny.VOCABULARY)}
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(WordLevel(words, unk_token="w0")),
    eos_token="w1",
    pad_token="w2",
    unk_token="w0",
)
rows = [ids.tolist() for batch in tiny.batches() for ids in batch]
trainer = SFTTrainer(
    model=tiny.llama(),
    args=SFTConfig(
        output_dir="out",
        per_device_train_batch_size=tiny.BATCH,
        max_steps=tiny.STEPS,
        max_length=tiny.LENGTH,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        gradient_checkpointing=False,
        seed=0,
    ),
    train_dataset=Dataset.from_dict({"input_ids": rows}),
    processing_class=tokenizer,
    callbacks=[tiny.lines()],
)
trainer.remove_callback(PrinterCallback)
trainer.train()
