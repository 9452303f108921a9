"""Arguments of a training run, passed from the launcher to its ranks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from tracekit.errors import UsageError

from ..command_line import profiler_options, range_options
from ..machine.hardware import accelerator_count
from ..model.models import check_name
from . import opt as opt_module
from .opt import Opt


class TrainingSpec(Struct, frozen=True):
    stage: str
    opt_text: str
    engine: str
    model: str
    layer_count: int | None
    precision: str
    seed: int
    batch_size: int
    sequence_length: int
    is_batch_fixed: bool
    learning_rate: float
    warmup_count: int
    measured_count: int
    repeat_count: int
    profiled_count: int
    rank_count: int
    tensor_size: int
    compression_options: dict[str, float]
    profiler: dict[str, bool]
    ranges: dict[str, Any]
    memory_limit_bytes: int | None
    command: list[str] = field(default_factory=list)

    @property
    def opt(self) -> Opt:
        return opt_module.parse(self.opt_text, self.stage)

    @property
    def data_size(self) -> int:
        return self.rank_count // self.tensor_size

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(msgspec.to_builtins(self)), "utf-8")

    @staticmethod
    def read(path: Path) -> TrainingSpec:
        return TrainingSpec(**json.loads(path.read_text("utf-8")))


_PAPER = {"seq_len": 350, "warmup": 30, "steps": 100, "repeats": 3, "profile_steps": 10}
# Few steps of a small model, so that a first run without a GPU takes seconds.
_ON_CPU = {"model": "tiny", "warmup": 1, "steps": 3, "repeats": 2, "profile_steps": 2}
_ON_GPU = {"model": "llama2-7b", "warmup": 5, "steps": 20, "repeats": 3, "profile_steps": 3}
_EVERYWHERE = {
    "opt": opt_module.NAIVE,
    "precision": "bf16",
    "seed": 0,
    "batch_size": 1,
    "seq_len": 350,
    "learning_rate": 1e-4,
    "nproc": 1,
    "tp": 1,
    "gc_rank": 4,
    "gc_density": 0.01,
}


def make_spec(
    values: Mapping[str, Any], command: list[str], *, world_size: int | None = None
) -> TrainingSpec:
    """Return the spec with this machine's defaults; `world_size` is set by a launcher, if any."""
    defaults = {**_EVERYWHERE, **(_ON_GPU if accelerator_count() else _ON_CPU)}
    if values.get("preset") == "paper":
        defaults |= _PAPER
    chosen = {**defaults, **values}
    if chosen["seq_len"] < 2:
        raise UsageError(
            f"--seq-len is {chosen['seq_len']}, but next-token prediction needs at least 2 tokens"
        )
    check_name(chosen["model"], chosen.get("layers"))
    if world_size is not None and values.get("nproc") not in (None, world_size):
        raise UsageError(
            f"--nproc is {values['nproc']}, but WORLD_SIZE is {world_size}",
            hint="omit --nproc under torchrun or deepspeed",
        )
    rank_count = world_size or chosen["nproc"]
    device_count = accelerator_count()
    if world_size is None and 0 < device_count < rank_count:
        raise UsageError(f"--nproc is {rank_count}, but the machine has {device_count} GPUs")
    opt = opt_module.parse(chosen["opt"], chosen["stage"])
    engine_name = chosen.get("engine") or opt_module.default_engine(opt)
    engine = opt_module.check_engine(
        opt, engine_name, tensor_size=chosen["tp"], stage=chosen["stage"]
    )
    if opt.compression in ("acpsgd", "topk") and chosen["precision"] == "fp16":
        # After an overflow, the residual would contain infinity forever.
        raise UsageError(
            f"--opt {opt}: gradients that were not sent are carried over, but --precision "
            "fp16 changes their scale from step to step",
            hint="use --precision bf16",
        )
    if engine in ("fsdp2", "megatron") and chosen["precision"] == "fp16":
        raise UsageError(
            f"--engine {engine} does not support loss scaling, which --precision fp16 needs",
            hint="use --precision bf16",
        )
    if rank_count % chosen["tp"]:
        raise UsageError(f"--tp is {chosen['tp']}, which does not divide {rank_count} ranks")
    return TrainingSpec(
        stage=chosen["stage"],
        opt_text=str(opt),
        engine=engine,
        model=chosen["model"],
        layer_count=chosen.get("layers"),
        precision=chosen["precision"],
        seed=chosen["seed"],
        batch_size=chosen["batch_size"],
        sequence_length=chosen["seq_len"],
        is_batch_fixed=bool(chosen.get("fixed_batch")),
        learning_rate=chosen["learning_rate"],
        warmup_count=chosen["warmup"],
        measured_count=chosen["steps"],
        repeat_count=chosen["repeats"],
        profiled_count=chosen["profile_steps"],
        rank_count=rank_count,
        tensor_size=chosen["tp"],
        compression_options={
            key.removeprefix("gc_"): value for key, value in chosen.items() if key.startswith("gc_")
        },
        profiler=profiler_options(chosen),
        ranges=range_options(chosen),
        memory_limit_bytes=chosen.get("memory_limit"),
        command=command,
    )
