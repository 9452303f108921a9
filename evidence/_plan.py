"""What the three parts do, in the order of its worth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Lane = Literal["gpu", "shared", "cpu"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to try, in a process of its own.

    Attributes:
        name: what it is.
        script: the module of `evidence.items` that does it.
        shows: what one learns from it.
        limit_s: seconds after which it is ended.
        lane: `gpu` has the device to itself, `shared` runs beside others, `cpu` needs none.
        arguments: for the script.
        dry: arguments that differ in a trial on a CPU.
        needs: `cuda`, `nvcc`, `lightllm`, or packages by import name.
        after: the item that must be over before one of the lane `cpu` begins.
        least_s: with less time than this left it does not start.
        is_last: whether it looks at all others and runs when they are over.
    """

    name: str
    script: str
    shows: str
    limit_s: int
    lane: Lane = "shared"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    dry: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    after: str | None = None
    least_s: int = 15
    is_last: bool = False

    @property
    def slug(self) -> str:
        """The name as a file can have it."""
        return re.sub(r"[^\w.+-]+", "-", self.name)

    def arguments_for(self, *, is_dry: bool) -> dict[str, Any]:
        """Return the arguments of the script, and its name."""
        chosen = {**self.arguments, **(self.dry if is_dry else {})}
        return {**chosen, "script": self.script}


def items(part: int) -> list[Item]:
    """Return the items of a part: 1, 2 or 3."""
    return {1: _part1, 2: _part2, 3: _part3}[part]()


def _part1() -> list[Item]:
    return [
        Item("host", "host", "the machine, its packages, a product computed right", 90),
        Item(
            "command",
            "command",
            "`tracekit collect` and what a person asks next, as commands",
            120,
            needs=("transformers",),
        ),
        *_methods(),
        *_loops(),
        Item("NCCL", "nccl", "collectives of one rank: what the trace tells of them", 90),
        Item(
            "flash backends", "flash", "the kernels of each attention backend, and their class", 90
        ),
        Item(
            "CUDA graphs",
            "cuda_graphs",
            "replayed kernels: all there, linked, in the phase of their launch",
            90,
            needs=("cuda",),
        ),
        Item(
            "memory",
            "memory_figures",
            "peaks and the allocator's events, held against torch.cuda.memory_stats",
            90,
            needs=("transformers",),
        ),
        Item("copies", "copies", "bytes and bandwidth of copies, held against CUDA events", 90),
        Item(
            "module times",
            "module_times",
            "time of modules and phases, held against CUDA events around them",
            120,
            lane="gpu",
            needs=("transformers",),
        ),
        Item(
            "overhead",
            "overhead",
            "what ranges and profiler cost a step of full width",
            120,
            lane="gpu",
            arguments={"model": "llama2-7b", "layers": 4, "batch_size": 4, "seq_len": 1024},
            dry={"model": "tiny", "layers": 2, "batch_size": 1, "seq_len": 64},
            needs=("transformers",),
        ),
    ]


def _methods() -> list[Item]:
    """Return every method and engine of the collectors' tests, in groups that share a process."""
    peft = ("transformers", "peft")
    deep = ("transformers", "deepspeed")
    groups: list[tuple[str, int, tuple[str, ...]]] = [
        ("pretrain ddp", 120, ("transformers",)),
        ("finetune ddp", 120, peft),
        ("4-bit", 150, (*peft, "deepspeed", "bitsandbytes")),
        ("pretrain deepspeed", 240, deep),
        ("finetune deepspeed", 240, (*deep, "peft")),
        ("fsdp2", 120, peft),
        ("gradient compression", 120, ("transformers",)),
    ]
    return [
        Item(
            f"methods {name}",
            "methods",
            "each trains, and its trace adds up, is linked and placed",
            limit_s,
            arguments={"group": name},
            needs=needs,
        )
        for name, limit_s, needs in groups
    ]


def _loops() -> list[Item]:
    loops: list[tuple[str, str, list[str], tuple[str, ...]]] = [
        ("plain", "plain", [], ()),
        ("compiled", "compiled", ["default"], ()),
        ("compiled with CUDA graphs", "compiled", ["reduce-overhead"], ("cuda",)),
        ("autocast", "autocast", [], ()),
        ("library", "library", [], ()),
        ("Trainer", "trainer", [], ("transformers", "accelerate")),
        ("compiled Trainer", "trainer", ["compiled"], ("transformers", "accelerate", "cuda")),
        ("accelerate", "accelerate_loop", [], ("accelerate",)),
        ("Lightning", "lightning_trainer", [], ("lightning",)),
        ("DDP", "ddp", [], ()),
        ("FSDP2", "fsdp2", [], ()),
    ]
    return [
        Item(
            f"loop {name}",
            "loop",
            "a program that nobody changed, under `tracekit collect -- python …`",
            150,
            arguments={"program": program, "words": words},
            needs=needs,
        )
        for name, program, words, needs in loops
    ]


_STEPS = {"warmup": 2, "steps": 5, "repeats": 3, "profile_steps": 2}
_DRY = {"model": "tiny", "batch_size": 1, "seq_len": 32, "layers": 1}
_DRY |= {"warmup": 1, "steps": 2, "repeats": 1, "profile_steps": 1}


def _training(stage: str, opt: str, batch_size: int, limit_s: int = 110, **more: Any) -> list[Item]:
    """Return a training run of the paper's, and the look at what it left."""
    name = f"{stage} {opt} batch {batch_size}"
    needs = ["transformers"]
    if "Z" in opt:
        needs.append("deepspeed")
    if "Q" in opt:
        needs.append("bitsandbytes")
    if stage == "finetune":
        needs.append("peft")
    run = {"stage": stage, "opt": opt, "batch_size": batch_size, "model": "llama2-7b"}
    return [
        Item(
            name,
            "train",
            "Llama2-7B, random weights, full width, as many layers as fit",
            limit_s,
            lane="gpu",
            arguments={**run, **_STEPS, **more},
            dry=_DRY,
            needs=tuple(needs),
            least_s=25,
        ),
        Item(
            f"trace of {name}",
            "trace",
            "the run's trace adds up, is linked and placed",
            60,
            lane="cpu",
            arguments={"run": name, "opt": opt},
            after=name,
            least_s=10,
        ),
    ]


def _part2() -> list[Item]:
    return [
        *_training("pretrain", "Naive", 2),
        *_training("pretrain", "R", 32),
        *_training("finetune", "L", 1),
        *_training("finetune", "QL", 1),
        *_training("pretrain", "F", 2),
        *_training("pretrain", "Naive", 1),
        *_training("finetune", "L+F+R", 1),
        *_training("finetune", "QL+F+R", 1),
        *_training("finetune", "PT", 1),
        *_training("finetune", "LFA", 1),
        *_training("pretrain", "R+Z2", 32, 150),
        *_training("pretrain", "R+Z3", 32, 150),
        *_training("pretrain", "Z2", 1, 150),
        *_training("pretrain", "Z2+O", 1, 150, most_layers=4),
        *_training("finetune", "L+F", 1),
        *_training("finetune", "L+R", 1),
        *_training("finetune", "QL+F", 1),
        *_training("finetune", "PT+F+R", 1),
        *_training("finetune", "LFA+F+R", 1),
        *_training("pretrain", "Z3+O", 1, 150, most_layers=4),
        *_training("pretrain", "R+F", 1),
        *_training("pretrain", "Q", 1),
        Item(
            "tables of training",
            "tables",
            "Tables III, V to IX and XII to XIV, ours beside the paper's",
            90,
            lane="cpu",
            arguments={"tables": [f"table{number}" for number in (3, 5, 6, 7, 8, 9, 12, 13, 14)]},
            is_last=True,
            least_s=10,
        ),
    ]


def _part3() -> list[Item]:
    return [
        Item(
            "LightLLM",
            "serve_lightllm",
            "a real server, 7B, with its own profiler",
            300,
            lane="gpu",
            arguments={"requests": 256, "prompt_len": 512, "max_new_tokens": 64, "layers": 32},
            needs=("cuda", "lightllm", "transformers"),
            least_s=90,
        ),
        Item(
            "transformers serving",
            "serve_transformers",
            "continuous batching in process, 7B",
            150,
            lane="gpu",
            arguments={
                "model": "llama2-7b",
                "requests": 192,
                "prompt_len": 512,
                "max_new_tokens": 64,
                "concurrency": 64,
                "max_batch_tokens": 4096,
            },
            dry={
                "model": "tiny",
                "requests": 4,
                "prompt_len": 16,
                "max_new_tokens": 4,
                "concurrency": 2,
                "max_batch_tokens": 64,
            },
            needs=("transformers",),
            least_s=45,
        ),
        Item(
            "bench",
            "bench",
            "`tracekit bench all`: what the machine can really do; Figures 11 to 15",
            180,
            lane="gpu",
            least_s=30,
        ),
        Item(
            "tables of serving",
            "tables",
            "Tables X and XI and Figures 6 to 10, ours beside the paper's",
            90,
            lane="cpu",
            arguments={
                "tables": ["table10", "table11", "figure7", "figure9"],
                "queries": ["throughput", "latency", "latency_cdf"],
            },
            is_last=True,
            least_s=10,
        ),
        Item(
            "tables of the machine",
            "tables",
            "Figures 11 to 15 and Table XII, ours beside the paper's",
            60,
            lane="cpu",
            arguments={"tables": [f"figure{number}" for number in range(11, 16)], "stage": "bench"},
            is_last=True,
            least_s=5,
        ),
    ]
