"""Third-party training loops in two variants: alternates profiled windows of A and B.

    python trainers.py PAIR.json FOLDER

Like loops.py, with loops of transformers, PEFT with accelerate, or Lightning. Models are small with
random weights; nothing is downloaded.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, Dataset

WARMUP = 2


class Options(Struct, frozen=True):
    """Model and training options. `*_ms` are sleeps."""

    loop: str = "transformers"
    width: int = 256
    layers: int = 2
    length: int = 128
    batch: int = 4
    vocabulary: int = 512
    attention: str = "sdpa"
    optimizer: str = "adamw_torch_fused"
    recompute: bool = False
    load_ms: float = 0
    workers: int = 0
    collect: bool = False
    pause_ms: float = 0


class Texts(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, options: Options) -> None:
        self.options = options

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if self.options.load_ms:
            time.sleep(self.options.load_ms / 1e3)
        text = torch.arange(self.options.length) % self.options.vocabulary
        return {"input_ids": text, "labels": text}


class Window:
    """Profiles the steps of a loop after the first ones. The loop calls it around each step."""

    def __init__(self, options: Options, steps: int, path: Path) -> None:
        self.options, self.steps, self.path = options, steps, path
        self.number = 0
        self.profiler: Any = None
        self.range: Any = None

    def begin(self) -> None:
        if self.number == WARMUP:
            self.profiler = profile(
                activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True
            )
            self.profiler.__enter__()
        if self.profiler is not None:
            self.range = record_function(f"ProfilerStep#{self.number}")
            self.range.__enter__()

    def end(self) -> None:
        if self.options.collect:
            gc.collect()
        if self.options.pause_ms:
            time.sleep(self.options.pause_ms / 1e3)
        if self.range is not None:
            self.range.__exit__(None, None, None)
        self.number += 1
        if self.number == WARMUP + self.steps:
            self.profiler.__exit__(None, None, None)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.profiler.export_chrome_trace(str(self.path))
            self.profiler = self.range = None


def llama(options: Options) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=options.vocabulary,
        hidden_size=options.width,
        intermediate_size=2 * options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=8,
        attn_implementation=options.attention,
    )
    return LlamaForCausalLM(config)


def by_transformers(options: Options, window: Window, folder: str) -> None:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Steps(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            window.begin()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            window.end()

    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=WARMUP + window.steps,
        per_device_train_batch_size=options.batch,
        optim=options.optimizer,
        gradient_checkpointing=options.recompute,
        dataloader_num_workers=options.workers,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        use_cpu=True,
    )
    Trainer(
        model=llama(options), args=arguments, train_dataset=Texts(options), callbacks=[Steps()]
    ).train()


def by_peft(options: Options, window: Window, folder: str) -> None:
    from accelerate import Accelerator
    from peft import LoraConfig, get_peft_model

    accelerator = Accelerator(cpu=True)
    model = get_peft_model(llama(options), LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(Texts(options), batch_size=options.batch, num_workers=options.workers)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches = iter(loader)
    for _ in range(WARMUP + window.steps):
        window.begin()
        accelerator.backward(model(**next(batches)).loss)
        optimizer.step()
        optimizer.zero_grad()
        window.end()


def by_lightning(options: Options, window: Window, folder: str) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Sequential(
                nn.Embedding(options.vocabulary, options.width),
                *(nn.Linear(options.width, options.width) for _ in range(options.layers)),
                nn.Linear(options.width, options.vocabulary),
            )

        def training_step(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            scores = self.model(batch["input_ids"])
            return nn.functional.cross_entropy(scores.flatten(0, 1), batch["labels"].flatten())

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)

    # Time between the end of a batch and the start of the next one is data loading, which begins a
    # step.
    class Steps(lightning.Callback):
        def on_train_batch_end(self, *_: Any) -> None:
            window.end()
            window.begin()

    window.begin()
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=WARMUP + window.steps,
        callbacks=[Steps()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(
        Module(), DataLoader(Texts(options), batch_size=options.batch, num_workers=options.workers)
    )


LOOPS: dict[str, Callable[[Options, Window, str], None]] = {
    "transformers": by_transformers,
    "peft": by_peft,
    "lightning": by_lightning,
}


def main() -> None:
    pair = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    folder = Path(sys.argv[2])
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    for number in range(pair["rounds"]):
        for name in ("a", "b", *("c" * bool(pair["c"]))):
            options = Options(**pair[name])
            torch.manual_seed(0)
            window = Window(options, pair["steps"], folder / f"{name}{number}" / "rank0.json")
            with tempfile.TemporaryDirectory(prefix="tracekit-trainer-") as scratch:
                LOOPS[options.loop](options, window, scratch)


if __name__ == "__main__":
    main()
