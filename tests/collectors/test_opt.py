"""`--opt`: the parser, its canonical form, and refused combinations."""

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
def test_any_order_and_case_gives_the_canonical_form(text, stage, canonical):
    parsed = opt.parse(text, stage)
    assert str(parsed) == canonical
    assert opt.parse(str(parsed), stage) == parsed


def test_members_of_an_opt():
    parsed = opt.parse("QL+F+R+Z2+O", "finetune")
    assert (parsed.zero_stage, parsed.adapter, parsed.compression) == (2, "QL", None)
    assert parsed.is_quantized
    assert all(token in parsed for token in "ORF")
    naive = opt.parse("Naive")
    assert (naive.zero_stage, naive.adapter, naive.compression) == (0, None, None)
    assert not naive.is_quantized
    assert opt.parse("GC:acpsgd").compression == "acpsgd"


@pytest.mark.parametrize(
    ("stage", "texts"),
    [
        ("pretrain", ("", "R+", "Z4", "GC:zip", "R+Z3+r", "Naive+R", "Z1+Z2", "O", "R+O", "Z1+O")),
        ("pretrain", ("L", "PT+Z3", "GC:topk+GC:signsgd", "GC:topk+Z2")),
        ("finetune", ("L+QL", "LFA+PT", "Q", "LFA+Z2")),
    ],
)
def test_wrong_combinations_are_refused(stage, texts):
    for text in texts:
        with pytest.raises(UsageError, match="--opt"):
            opt.parse(text, stage)


def test_a_slip_gets_a_suggestion():
    with pytest.raises(UsageError) as caught:
        opt.parse("Niave")
    assert "Naive?" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "engine"),
    [("Naive", "ddp"), ("R+F", "ddp"), ("Z1", "deepspeed"), ("Z3+O", "deepspeed"), ("Q", "ddp")],
)
def test_deepspeed_runs_for_zero(text, engine):
    assert opt.default_engine(opt.parse(text)) == engine
