"""Training loop in two variants: alternates profiled windows of A and B, with one process per rank.

    python loops.py PAIR.json FOLDER

PAIR.json has the options of A and B (:class:`Options`), and optionally of C, a run of another size.
It also has the number of windows of each, and the steps per window. Traces are written to
FOLDER/a0/rank0.json, FOLDER/b0/rank0.json, and so on.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from msgspec import Struct
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))


class Options(Struct, frozen=True):
    """Contents of a step. `*_ms` are sleeps; `python` and `busy` count Python loop iterations."""

    width: int = 512
    hidden: int = 1024
    layers: int = 4
    batch: int = 64
    accumulate: int = 1
    recompute: bool = False
    norm: bool = False
    norm_in_pieces: bool = False
    dropout: bool = False
    activation: bool = True
    optimizer: str = "sgd"
    step_every: int = 1
    clip: bool = False
    load_ms: float = 0
    workers: int = 0
    prepare: bool = False
    python: int = 0
    log: bool = False
    evaluate: bool = False
    save: bool = False
    stall_ms: float = 0
    busy: int = 0
    loaded_rank: int = 0
    batch_of_rank1: int = 0
    modules: bool = False
    ddp: bool = False
    bucket_mb: float = 25
    no_sync: bool = True
    reduce: int = 0
    double: bool = False
    attention: str = ""
    keep_zeros: bool = False
    collect: bool = False
    pause_ms: float = 0
    dump: int = 0
    stack: bool = False


class Batches(Dataset[torch.Tensor]):
    def __init__(self, options: Options, rows: int) -> None:
        self.batch = torch.ones(rows, options.width)
        self.sleep_s = options.load_ms / 1e3 if options.loaded_rank <= RANK else 0.0

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.sleep_s:
            time.sleep(self.sleep_s)
        return self.batch + index


class Attention(nn.Module):
    """Attention with four heads, unfused or with the fused op."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.in_pieces = options.attention == "pieces"
        self.qkv = nn.Linear(options.width, 3 * options.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, width = x.shape
        q, k, v = self.qkv(x).view(rows, 3, 4, width // 4).permute(1, 2, 0, 3)
        if self.in_pieces:
            scores = torch.bmm(q, k.transpose(1, 2)) * (width // 4) ** -0.5
            mixed = torch.bmm(scores.softmax(-1), v)
        else:
            mixed = nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        return mixed.transpose(0, 1).reshape(rows, width)


class NormInPieces(nn.LayerNorm):
    """A norm of single ops, as in many models."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        deviation = torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + self.eps)
        return centred * deviation * self.weight + self.bias


class Block(nn.Module):
    def __init__(self, options: Options) -> None:
        super().__init__()
        self.attention = Attention(options) if options.attention else nn.Identity()
        norm = NormInPieces if options.norm_in_pieces else nn.LayerNorm
        self.norm = norm(options.width) if options.norm else nn.Identity()
        self.up = nn.Linear(options.width, options.hidden)
        self.act = nn.GELU() if options.activation else nn.Identity()
        self.drop = nn.Dropout(0.1) if options.dropout else nn.Identity()
        self.down = nn.Linear(options.hidden, options.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.drop(self.act(self.up(self.norm(self.attention(x))))))


class Model(nn.Module):
    def __init__(self, options: Options) -> None:
        super().__init__()
        self.recompute = options.recompute
        self.blocks = nn.ModuleList(Block(options) for _ in range(options.layers))
        self.head = nn.Linear(options.width, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + (checkpoint(block, x, use_reentrant=False) if self.recompute else block(x))
        return self.head(x)


def work_in_python(turns: int) -> int:
    total = 0
    for i in range(turns):
        total += i * i
    return total


class Program:
    """A variant of the loop."""

    def __init__(self, options: Options) -> None:
        torch.manual_seed(0)
        self.options = options
        self.model = Model(options)
        if options.double:
            self.model.double()
        self.trained: nn.Module = self.model
        if options.ddp:
            self.trained = DistributedDataParallel(self.model, bucket_cap_mb=options.bucket_mb)
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=1e-5)
        if options.optimizer != "sgd":
            how = {"fused": {"fused": True}, "single": {"foreach": False}, "adamw": {}}
            self.optimizer = torch.optim.AdamW(
                self.model.parameters(), lr=1e-5, **how[options.optimizer]
            )
        self.message = torch.ones(options.reduce)
        rows = options.batch_of_rank1 if RANK == 1 and options.batch_of_rank1 else options.batch
        self.batches: Iterator[torch.Tensor] = iter(
            DataLoader(Batches(options, rows), batch_size=None, num_workers=options.workers)
        )
        self.count = 0
        if options.modules:
            from tracekit.collectors.ranges import ModuleRanges

            ModuleRanges(self.model).attach()

    def step(self) -> None:
        o = self.options
        for number in range(o.accumulate):
            x = next(self.batches)
            if o.double:
                x = x.double()
            if o.prepare:
                with record_function("prepare"):
                    x = x.repeat(16, 1).sort(dim=1).values[: len(x)] / (x.std() + 1)
            if o.python:
                with record_function("augment"):
                    work_in_python(o.python)
            is_last = number == o.accumulate - 1
            with nullcontext() if is_last or not (o.ddp and o.no_sync) else self.trained.no_sync():
                self.trained(x).square().mean().backward()
        if o.pause_ms and RANK == WORLD - 1:
            time.sleep(o.pause_ms / 1e3)
        if o.collect:
            gc.collect()
        if o.dump:
            json.dumps([{"step": self.count, "value": n / 7} for n in range(o.dump)])
        if o.stall_ms and RANK == WORLD - 1:
            with record_function("stall"):
                time.sleep(o.stall_ms / 1e3)
        if o.busy and RANK == WORLD - 1:
            with record_function("busy"):
                work_in_python(o.busy)
        if o.reduce:
            dist.all_reduce(self.message)
        if o.clip:
            with record_function("clip_grad"):
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.count += 1
        if self.count % o.step_every == 0:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=not o.keep_zeros)
        if o.log:
            for p in self.model.parameters():
                float(p.detach().abs().max())
        if o.evaluate:
            with record_function("evaluate"), torch.no_grad():
                self.model(x)
        if o.save:
            with record_function("save"):
                torch.save(self.model.state_dict(), io.BytesIO())


def record(program: Program, steps: int, path: Path) -> None:
    # Consume prefetched batches, and warm up the caches.
    for _ in range(2 + 3 * program.options.workers):
        program.step()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Shapes are needed for message sizes.
    shapes = program.options.reduce > 0 or program.options.stack
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=shapes,
        with_stack=program.options.stack,
    ) as profiler:
        begin_together(path)
        for number in range(steps):
            with record_function(f"ProfilerStep#{number}"):
                program.step()
    profiler.export_chrome_trace(str(path))


def begin_together(path: Path) -> None:
    """Wait for the other ranks, because their profilers start at different times.

    Loops without collectives have no other synchronization. In others, the wait would be part of
    the window.
    """
    window, folder = path.parent.name, path.parents[1]
    (folder / f"ready-{window}-{RANK}").touch()
    while len(list(folder.glob(f"ready-{window}-*"))) < WORLD:
        pass


def main() -> None:
    pair = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    folder = Path(sys.argv[2])
    torch.set_num_threads(1)
    if WORLD > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=RANK, world_size=WORLD
        )
    programs = {
        name: Program(Options(**pair[name])) for name in ("a", "b", *("c" * bool(pair["c"])))
    }
    for number in range(pair["rounds"]):
        for name, program in programs.items():
            if WORLD > 1:
                dist.barrier()
            record(program, pair["steps"], folder / f"{name}{number}" / f"rank{RANK}.json")
    if WORLD > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
