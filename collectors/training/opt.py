"""Parses `--opt`, the optimization methods of a run, and checks their combinations.

The canonical order is from arXiv 2311.03687; `z3+r` becomes `R+Z3`.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Literal

from msgspec import Struct

from tracekit.errors import UsageError

from . import compression

Engine = Literal["ddp", "deepspeed", "fsdp2", "megatron"]
ENGINES: tuple[Engine, ...] = ("ddp", "deepspeed", "fsdp2", "megatron")

COMPRESSIONS = tuple(compression.methods())
NAIVE = "Naive"

# Maps each token to a description of its method, in canonical order.
TOKENS: dict[str, str] = {
    NAIVE: "data parallel only",
    "L": "LoRA",
    "QL": "QLoRA",
    "LFA": "LoRA-FA",
    "PT": "prompt tuning",
    "F": "FlashAttention",
    "R": "activation recomputation",
    "Q": "4-bit weights",
    "Z1": "ZeRO stage 1",
    "Z2": "ZeRO stage 2",
    "Z3": "ZeRO stage 3",
    "O": "offload",
    **{f"GC:{name}": "gradient compression" for name in COMPRESSIONS},
}
_ADAPTERS = ("L", "QL", "LFA", "PT")
_ZERO = ("Z1", "Z2", "Z3")


class Opt(Struct, frozen=True):
    tokens: tuple[str, ...]

    def __str__(self) -> str:
        return "+".join(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self.tokens

    @property
    def zero_stage(self) -> int:
        return next((int(token[1]) for token in self.tokens if token in _ZERO), 0)

    @property
    def is_quantized(self) -> bool:
        return "Q" in self.tokens or "QL" in self.tokens

    @property
    def adapter(self) -> str | None:
        return next((token for token in self.tokens if token in _ADAPTERS), None)

    @property
    def compression(self) -> str | None:
        return next((token[3:] for token in self.tokens if token.startswith("GC:")), None)


def parse(text: str, stage: str = "pretrain") -> Opt:
    canonical = {token.upper(): token for token in TOKENS}
    tokens: list[str] = []
    for word in re.split(r"[+\s]+", text.strip()):
        token = canonical.get(word.upper())
        if token is None:
            raise _unknown(text, word)
        if token in tokens:
            raise UsageError(f"--opt {text}: {token} appears twice")
        tokens.append(token)
    order = list(TOKENS)
    opt = Opt(tuple(sorted(tokens, key=order.index)))
    _check_combination(opt, stage)
    return opt


def default_engine(opt: Opt) -> Engine:
    return "deepspeed" if opt.zero_stage else "ddp"


def check_engine(opt: Opt, engine: str, *, tensor_size: int = 1, stage: str = "pretrain") -> Engine:
    known = {name: name for name in ENGINES}
    if engine.lower() not in known:
        raise UsageError(
            f"--engine is {engine!r}, not one of {', '.join(ENGINES)}",
            hint=f"engines of --stage {stage}",
        )
    name = known[engine.lower()]  # type: ignore[index]
    reason = hint = None
    if tensor_size != 1 and name != "megatron":
        reason = f"--tp is for --engine megatron, not for {name}"
    elif name == "ddp" and opt.zero_stage:
        reason = f"--opt {opt}: ZeRO stage {opt.zero_stage} shards state that DDP replicates"
        hint = "use --engine deepspeed or --engine fsdp2"
    elif name != "ddp" and opt.compression:
        reason = f"--opt {opt}: gradient compression is a communication hook of DDP, not of {name}"
        hint = "use --engine ddp"
    elif name != "ddp" and "LFA" in opt:
        reason = f"--opt {opt}: LoRA-FA has its own optimizer, which only --engine ddp supports"
    elif name == "fsdp2" and opt.zero_stage not in (2, 3):
        reason = f"--opt {opt}: --engine fsdp2 needs Z2 or Z3"
        hint = "add Z2 or Z3, or use --engine ddp"
    elif name == "megatron":
        reason = _megatron_refusal(opt, stage)
    if reason:
        raise UsageError(reason, hint=hint)
    return name


def _unknown(text: str, word: str) -> UsageError:
    if not word:
        return UsageError(f"--opt {text!r}: a method is missing", hint="for example --opt R+Z3")
    if word.upper().startswith("GC"):
        return UsageError(
            f"--opt {text}: {word} is not a gradient compression",
            hint="known: " + ", ".join(f"GC:{name}" for name in COMPRESSIONS),
        )
    upper = {token.upper(): token for token in TOKENS}
    close = get_close_matches(word.upper(), upper, n=1, cutoff=0.6)
    hint = f"did you mean {upper[close[0]]}? " if close else ""
    return UsageError(
        f"--opt {text}: unknown method {word!r}", hint=f"{hint}known: {', '.join(TOKENS)}"
    )


def _check_combination(opt: Opt, stage: str) -> None:
    zero = [token for token in opt.tokens if token in _ZERO]
    adapters = [token for token in opt.tokens if token in _ADAPTERS]
    compressions = [token for token in opt.tokens if token.startswith("GC:")]
    reason = hint = None
    if NAIVE in opt and len(opt.tokens) > 1:
        reason = "Naive cannot be combined with other methods"
        hint = "omit Naive"
    elif len(zero) > 1:
        reason = f"{' and '.join(zero)} exclude each other"
    elif len(compressions) > 1:
        reason = f"{' and '.join(compressions)} exclude each other"
    elif adapters and stage == "pretrain":
        reason = f"{adapters[0]} ({TOKENS[adapters[0]]}) is a fine-tuning method"
        hint = "use --stage finetune"
    elif len(adapters) > 1:
        reason = f"{' and '.join(adapters)} exclude each other"
        if set(adapters) == {"L", "QL"}:
            hint = "QL is LoRA over 4-bit weights"
    elif "Q" in opt and stage == "finetune":
        reason = "Q freezes the 4-bit weights and trains the rest, which means pre-training here"
        hint = "use QL to fine-tune over 4-bit weights"
    elif "O" in opt and zero not in (["Z2"], ["Z3"]):
        reason = "O (offload) needs Z2 or Z3"
    elif compressions and zero:
        reason = f"{compressions[0]} compresses gradients that {zero[0]} would shard"
        hint = f"omit {zero[0]}: gradient compression is a communication hook of DDP"
    elif "LFA" in opt and zero:
        reason = f"{zero[0]} would shard state that the LoRA-FA optimizer needs on every rank"
    if reason:
        raise UsageError(f"--opt {opt}: {reason}", hint=hint)


def _megatron_refusal(opt: Opt, stage: str) -> str | None:
    if stage != "pretrain":
        return "--engine megatron supports only --stage pretrain"
    for token in opt.tokens:
        if token not in (NAIVE, "R"):
            return f"--opt {opt}: --engine megatron supports Naive and R, not {token}"
    return None
