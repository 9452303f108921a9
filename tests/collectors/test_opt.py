"""`--opt`: one parser, one canonical form, and a sentence for what cannot be combined."""

from __future__ import annotations

import pytest

from tracekit.collectors.training import opt
from tracekit.errors import UsageError


@pytest.mark.parametrize(
    ("text", "stage", "canonical"),
    [
        ("Naive", "pretrain", "Naive"),
        ("naive", "pretrain", "Naive"),
        ("z3+r", "pretrain", "R+Z3"),
        ("O+Z3+R+F", "pretrain", "F+R+Z3+O"),
        (" R + Z2 ", "pretrain", "R+Z2"),
        ("Q+R", "pretrain", "R+Q"),
        ("gc:TopK+r", "pretrain", "R+GC:topk"),
        ("Z2+ql+F", "finetune", "QL+F+Z2"),
        ("l+f+r+z3+o", "finetune", "L+F+R+Z3+O"),
        ("Naive", "finetune", "Naive"),
        ("lfa", "finetune", "LFA"),
        ("L+GC:powersgd", "finetune", "L+GC:powersgd"),
    ],
)
def test_any_order_and_case_gives_the_canonical_form(text: str, stage: str, canonical: str) -> None:
    parsed = opt.parse(text, stage)
    assert str(parsed) == canonical
    assert opt.parse(str(parsed), stage) == parsed


def test_what_an_opt_says() -> None:
    parsed = opt.parse("QL+F+R+Z2+O", "finetune")
    assert (parsed.zero_stage, parsed.adapter, parsed.compression) == (2, "QL", None)
    assert parsed.is_offloaded
    assert parsed.is_recomputed
    assert parsed.is_flash
    assert parsed.is_quantized
    naive = opt.parse("Naive")
    assert (naive.zero_stage, naive.adapter, naive.compression) == (0, None, None)
    says = (naive.is_offloaded, naive.is_recomputed, naive.is_flash, naive.is_quantized)
    assert says == (False, False, False, False)
    assert opt.parse("GC:acpsgd").compression == "acpsgd"


@pytest.mark.parametrize(
    ("text", "stage", "message"),
    [
        ("", "pretrain", "--opt '': a method is missing"),
        ("R+", "pretrain", "--opt 'R+': a method is missing"),
        ("Z4", "pretrain", "--opt Z4: there is no method 'Z4'"),
        ("GC:zip", "pretrain", "--opt GC:zip: GC:zip is no gradient compression"),
        ("R+Z3+r", "pretrain", "--opt R+Z3+r: R is given twice"),
        ("Naive+R", "pretrain", "--opt Naive+R: Naive means nothing else"),
        ("Z1+Z2", "pretrain", "--opt Z1+Z2: Z1 and Z2 exclude each other"),
        ("O", "pretrain", "--opt O: O (offload) needs Z2 or Z3"),
        ("R+O", "pretrain", "--opt R+O: O (offload) needs Z2 or Z3"),
        ("Z1+O", "pretrain", "--opt Z1+O: O (offload) needs Z2 or Z3"),
        ("L", "pretrain", "--opt L: L (LoRA) is a method of fine-tuning"),
        ("PT+Z3", "pretrain", "--opt PT+Z3: PT (prompt tuning) is a method of fine-tuning"),
        ("L+QL", "finetune", "--opt L+QL: L and QL exclude each other"),
        ("LFA+PT", "finetune", "--opt LFA+PT: LFA and PT exclude each other"),
        (
            "Q",
            "finetune",
            "--opt Q: Q freezes the 4-bit weights and trains the rest, which is pre-training here",
        ),
        (
            "GC:topk+GC:signsgd",
            "pretrain",
            "--opt GC:signsgd+GC:topk: GC:signsgd and GC:topk exclude each other",
        ),
        (
            "GC:topk+Z2",
            "pretrain",
            "--opt Z2+GC:topk: GC:topk compresses what Z2 would shard",
        ),
        ("LFA+Z2", "finetune", "--opt LFA+Z2: Z2 would shard what LoRA-FA's optimizer needs whole"),
    ],
)
def test_wrong_combinations_are_refused(text: str, stage: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        opt.parse(text, stage)
    assert caught.value.message == message


def test_a_slip_gets_a_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        opt.parse("Niave")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("did you mean Naive? known: Naive, L, QL,")


@pytest.mark.parametrize(
    ("text", "engine"),
    [("Naive", "ddp"), ("R+F", "ddp"), ("Z1", "deepspeed"), ("Z3+O", "deepspeed"), ("Q", "ddp")],
)
def test_deepspeed_runs_where_zero_is_asked_for(text: str, engine: str) -> None:
    assert opt.default_engine(opt.parse(text)) == engine


@pytest.mark.parametrize(
    ("text", "stage", "engine", "tensor_size", "message"),
    [
        (
            "R",
            "pretrain",
            "horovod",
            1,
            "--engine is 'horovod', not one of ddp, deepspeed, fsdp2, megatron",
        ),
        ("Z3", "pretrain", "ddp", 1, "--opt Z3: ZeRO stage 3 shards what DDP keeps whole"),
        (
            "GC:topk",
            "pretrain",
            "deepspeed",
            1,
            "--opt GC:topk: gradient compression is a communication hook of DDP, not of deepspeed",
        ),
        (
            "LFA",
            "finetune",
            "deepspeed",
            1,
            "--opt LFA: LoRA-FA is an optimizer of its own, which only --engine ddp runs",
        ),
        ("R", "pretrain", "fsdp2", 1, "--opt R: --engine fsdp2 runs Z2 or Z3"),
        ("Z1", "pretrain", "fsdp2", 1, "--opt Z1: --engine fsdp2 runs Z2 or Z3"),
        ("Naive", "pretrain", "ddp", 2, "--tp is for --engine megatron, not for ddp"),
        (
            "Z2",
            "pretrain",
            "megatron",
            2,
            "--opt Z2: --engine megatron runs Naive and R, not Z2",
        ),
        ("Naive", "finetune", "megatron", 2, "--engine megatron is for --stage pretrain"),
    ],
)
def test_engines_refuse_what_they_cannot_run(
    text: str, stage: str, engine: str, tensor_size: int, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        opt.check_engine(opt.parse(text, stage), engine, tensor_size=tensor_size, stage=stage)
    assert caught.value.message == message
