"""Pairs of loops with one difference, which is predicted and measured."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace


class Pair(Struct, frozen=True):
    """Options of a loop and its variant, and the corresponding changes for `tracekit predict`.

    The options are for `tracekit collect` if `is_collected`, else for `loops.Options`. `c` has the
    options of another run that the prediction may use. `why_not` explains why predict cannot
    express the change; such pairs are not run. `script` is the loop.
    """

    name: str
    a: dict[str, Any] = field(default_factory=dict)
    b: dict[str, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    ranks: int = 1
    is_null: bool = False
    is_collected: bool = False
    why_not: str | None = None
    c: dict[str, Any] = field(default_factory=dict)
    script: str = "loops.py"


def _pair(name: str, shared: dict[str, Any], a: dict[str, Any], b: dict[str, Any], *changes: str,
          ranks: int = 1, is_null: bool = False,
          c: dict[str, Any] | None = None) -> Pair:  # fmt: skip
    further = {} if c is None else shared | c
    return Pair(name, shared | a, shared | b, changes, ranks, is_null, c=further)


def _collected(name: str, a: dict[str, Any], b: dict[str, Any], *changes: str) -> Pair:
    return Pair(name, _COLLECT | a, _COLLECT | b, changes, is_collected=True)


def _trained(name: str, shared: dict[str, Any], a: dict[str, Any], b: dict[str, Any],
             *changes: str, c: dict[str, Any] | None = None) -> Pair:  # fmt: skip
    return replace(_pair(name, shared, a, b, *changes, c=c), script="trainers.py")


def _removed(*chosen: str) -> tuple[str, ...]:
    return tuple(f"{what}{terms} remove" for terms in chosen for what in ("", "host "))


def _halved(*phases: str) -> tuple[str, ...]:
    return tuple(f"{what}phase={phase} x0.5" for phase in phases for what in ("", "host "))


_COLLECT = {"--precision": "fp32", "--seq-len": 256, "--batch-size": 2, "--warmup": 1, "--steps": 1,
            "--repeats": 1, "--opt": "Naive"}  # fmt: skip
_MODULES = {"modules": True}
_WIDE = {"modules": True, "hidden": 2048, "layers": 3}
_ADAM = {"optimizer": "adamw"}

PAIRS: tuple[Pair, ...] = (
    _pair("nothing changed", {}, {}, {}, "host x1", is_null=True),
    # Data loading.
    _pair("loader, 15 ms → none", {}, {"load_ms": 15}, {}, "loading remove"),
    _pair("loader, 20 → 10 ms", {}, {"load_ms": 20}, {"load_ms": 10}, "loading x0.5"),
    _pair("loader, 10 → 30 ms", {}, {"load_ms": 10}, {"load_ms": 30}, "loading x3"),
    _pair("loader, 15 ms → 1 worker", {"load_ms": 15}, {}, {"workers": 1}, "loading workers=1"),
    _pair("loader, 80 ms → 1 worker", {"load_ms": 80}, {}, {"workers": 1}, "loading workers=1"),
    _pair("loader, 80 ms → 2 workers", {"load_ms": 80}, {}, {"workers": 2}, "loading workers=2"),
    _pair("1 worker, 60 → 30 ms", {"workers": 1}, {"load_ms": 60}, {"load_ms": 30},
          "loading x0.5"),
    # Python code and other work outside the model.
    _pair("Python of the loop removed", {}, {"python": 300_000}, {}, "range=augment remove"),
    _pair("Python of the loop halved", {}, {"python": 400_000}, {"python": 200_000},
          "range=augment x0.5"),
    _pair("Python of the loop ×3", {}, {"python": 100_000}, {"python": 300_000},
          "range=augment x3"),
    _pair("largest weights not logged", {"layers": 6}, {"log": True}, {},
          "op=aten::abs remove", "op=aten::max remove", "op=aten::item remove"),
    _pair("batch prepared elsewhere", {}, {"prepare": True}, {}, "range=prepare remove"),
    _pair("evaluation in each step removed", {}, {"evaluate": True}, {}, "range=evaluate remove"),
    _pair("checkpoint in each step removed", {}, {"save": True}, {}, "range=save remove"),
    _pair("gradient clipping removed", {}, {"clip": True}, {}, "range=clip_grad remove"),
    # The model.
    _pair("layers 6 → 3", _MODULES, {"layers": 6}, {"layers": 3},
          *_removed("module=blocks.[345]*"), *_halved("optimizer")),
    _pair("layers 4 → 3", _MODULES, {"layers": 4}, {"layers": 3}, *_removed("module=blocks.3*"),
          "phase=optimizer x0.75", "host phase=optimizer x0.75"),
    _pair("MLP 2048 → 1024 wide", _WIDE, {}, {"hidden": 1024},
          "module=blocks.* x0.5", "phase=optimizer x0.5"),
    _pair("MLP 1024 → 1536 wide", _MODULES, {}, {"hidden": 1536},
          "module=blocks.* x1.5", "phase=optimizer x1.5"),
    _pair("activation removed", _WIDE, {}, {"activation": False}, *_removed("module=*.act")),
    _pair("dropout removed", _WIDE, {"dropout": True}, {}, *_removed("module=*.drop")),
    _pair("layer norm removed", {"modules": True, "width": 1024, "layers": 3}, {"norm": True}, {},
          *_removed("module=*.norm")),
    _pair("batch 128 → 64", {}, {"batch": 128}, {"batch": 64}, "phase=forward x0.5",
          "phase=backward x0.5"),
    _pair("batch 64 → 128", {}, {"batch": 64}, {"batch": 128}, "phase=forward x2",
          "phase=backward x2"),
    _pair("batch 64 and 96 → 128", _MODULES, {"batch": 64}, {"batch": 128},
          "batch=128 of=64,96", c={"batch": 96}),
    _pair("batch 128 and 32 → 64", _MODULES, {"batch": 128}, {"batch": 64},
          "batch=64 of=128,32", c={"batch": 32}),
    _pair("recomputation off", {"modules": True}, {"recompute": True}, {},
          "recompute off"),
    _pair("recomputation off, few ops", {"modules": True, "batch": 256, "layers": 2},
          {"recompute": True}, {}, "recompute off"),
    _pair("recomputation on", {"modules": True}, {}, {"recompute": True},
          "recompute on module=blocks.*"),
    _pair("attention fused", {"modules": True, "width": 128, "hidden": 128, "batch": 512},
          {"attention": "pieces"}, {"attention": "fused"}, "attention fused"),
    _pair("norm fused", {"modules": True, "width": 1024, "layers": 3, "norm": True},
          {"norm_in_pieces": True}, {}, "norm fused"),
    # The step.
    _pair("accumulation 2 → 4", {}, {"accumulate": 2}, {"accumulate": 4}, "accumulate x2"),
    _pair("accumulation 4 → 2", {}, {"accumulate": 4}, {"accumulate": 2},
          *_halved("forward", "backward")),
    _pair("optimizer every second step", _ADAM, {}, {"step_every": 2}, *_halved("optimizer")),
    # SGD makes 3 passes over memory, and AdamW 20.
    _pair("AdamW → SGD, by bytes", {"batch": 16}, _ADAM, {}, "phase=optimizer x0.15",
          "host phase=optimizer x0.15"),
    _pair("for-loop Adam → fused", {"batch": 16}, {"optimizer": "single"},
          {"optimizer": "fused"}, "optimizer fused"),
    # Two ranks of gloo.
    _pair("stall of one rank removed", {"ddp": True}, {"stall_ms": 40}, {},
          "range=stall remove", ranks=2),
    _pair("stall of one rank halved", {"ddp": True}, {"stall_ms": 60}, {"stall_ms": 30},
          "range=stall rank=1 x0.5", ranks=2),
    _pair("slow Python of one rank removed", {"reduce": 100_000}, {"busy": 400_000}, {},
          "range=busy remove", ranks=2),
    _pair("slow loader of one rank removed", {"ddp": True}, {"load_ms": 40, "loaded_rank": 1}, {},
          "loading rank=1 remove", ranks=2),
    _pair("uneven batches evened out", {"ddp": True}, {"batch": 32, "batch_of_rank1": 96},
          {"batch": 64}, "ranks=median", ranks=2),
    _pair("message halved", {"layers": 1}, {"reduce": 4_000_000}, {"reduce": 2_000_000},
          "bandwidth x2", ranks=2),
    _pair("reduction removed", {"layers": 2}, {"reduce": 2_000_000}, {}, "class=comm* remove",
          ranks=2),
    # Third-party training loops: transformers' Trainer, PEFT with accelerate, Lightning.
    _trained("Trainer: dataset, 5 ms a text → none", {}, {"load_ms": 5}, {}, "loading remove"),
    _trained("Trainer: recomputation off", {"layers": 4}, {"recompute": True}, {},
             "recompute off"),
    _trained("Trainer: attention fused", {"length": 256}, {"attention": "eager"}, {},
             "attention fused"),
    _trained("Trainer: for-loop Adam → fused", {"length": 16, "width": 512},
             {"optimizer": "adamw_torch"}, {}, "optimizer fused"),
    _trained("Trainer: 4 and 6 → 8 texts", {}, {}, {"batch": 8}, "batch=8 of=4,6",
             c={"batch": 6}),
    _trained("PEFT: dataset, 10 ms a text → 1 worker", {"loop": "peft"}, {"load_ms": 10},
             {"load_ms": 10, "workers": 1}, "loading workers=1"),
    _trained("PEFT: layers 4 → 2", {"loop": "peft"}, {"layers": 4}, {},
             *_removed("module=*LlamaDecoderLayer_[23]*")),
    _trained("PEFT: 128 and 192 → 256 tokens", {"loop": "peft"}, {}, {"length": 256},
             "sequence=256 of=128,192", c={"length": 192}),
    _trained("Lightning: dataset, 10 → 5 ms a text", {"loop": "lightning"}, {"load_ms": 10},
             {"load_ms": 5}, "loading x0.5"),
    # tracekit's collectors: a small Llama, alternating runs of A and B.
    _collected("collected: recomputation off", {"--opt": "R"}, {}, "recompute off"),
    _collected("collected: layers 4 → 2", {}, {"--layers": 2},
               *_removed("module=model.layers.[23]*")),
    _collected("collected: recomputation on", {}, {"--opt": "R"},
               "recompute on module=model.layers.*"),
    _collected("collected: attention fused", {}, {"--opt": "F"}, "attention fused"),
    _collected("collected: batch 2 → 1", {}, {"--batch-size": 1}, "phase=forward x0.5",
               "phase=backward x0.5"),
    _collected("collected: ZeRO 3 → 2", {"--opt": "Z3", "--nproc": 2},
               {"--opt": "Z2", "--nproc": 2}, "zero stage=2"),
    # Changes that predict cannot express.
    Pair("compiled model", why_not="which ops are fused is not in the trace"),
    Pair("group size 2 → 4", why_not="four ranks need four cores: B would not be a run of A's"),
)  # fmt: skip
