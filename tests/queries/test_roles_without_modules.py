"""Roles where no module is recorded: the order of products tells, or nothing is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import call, kernel, span

import tracekit

GEMM, FLASH = "nvjet_sm90_tst_256x128", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop"
SILU, RELU = (
    f"void at::native::vectorized_elementwise_kernel<8, at::native::{name}_kernel>"
    for name in ("silu", "relu")
)
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"

Work = tuple[str, str, int, tuple[int, int] | None]
"""Op, kernel, its length in µs, and rows and columns of the right matrix."""


def mm(length: int, rows: int, columns: int) -> Work:
    return ("aten::mm", GEMM, length, (rows, columns))


def attention(length: int) -> Work:
    return ("aten::_cudnn_attention_forward", FLASH, length, None)


def roles(tiny_trace: Callable[..., Path], works: Sequence[Work], **last: Any) -> dict[str, int]:
    events, at = [], 1_000
    for number, (op, name, length, sides) in enumerate(works, start=1):
        dims = {"Input Dims": [[512, sides[0]], [*sides]]} if sides else {}
        if op:
            events.append(span("cpu_op", op, number * 10, number * 10 + 8, **dims))
        events += [
            call(number * 10 + 1, number * 10 + 2, number),
            kernel(name, at, at + length, number),
        ]
        at += length
    with tracekit.open(tiny_trace(events, **last), cache=False) as trace:
        rows = trace.query("roles").to_dicts()
    return {row["role"]: row["kernel_ns"] // 1_000 for row in rows if row["wall_ns"]}


def layer(*, gate_is_fused: bool = False, qkv: Sequence[int] = (3, 4, 5)) -> list[Work]:
    """A layer from its products for q, k and v on; all lengths are different."""
    products = [mm(length, 64, 64) for length in qkv]
    norm: Work = ("aten::add", ADD, 1, None)
    if gate_is_fused:
        mlp = [mm(60, 64, 256), ("", SILU, 20, None), mm(70, 128, 64)]
    else:
        up: Work = ("aten::mul", ADD, 2, None)
        silu: Work = ("aten::silu", SILU, 20, None)
        mlp = [mm(60, 64, 128), silu, mm(61, 64, 128), up, mm(70, 128, 64)]
    return [*products, attention(100), mm(40, 64, 64), norm, *mlp, norm]


def test_by_the_number_of_products_alone(tiny_trace: Callable[..., Path]) -> None:
    """A window that begins in a layer, of kernels without ops."""
    names = [(FLASH, 100), (GEMM, 40), (GEMM, 60), (SILU, 20), (GEMM, 70), (GEMM, 30), (FLASH, 100)]
    found = roles(tiny_trace, [("", name, length, None) for name, length in names])
    assert found == {"QKV": 30, "Attention": 200, "Output": 40, "MLP": 150}


@pytest.mark.parametrize("gate_is_fused", [False, True])
@pytest.mark.parametrize("qkv", [(3, 4, 5), (12,), (8, 4)])
def test_by_the_shapes_of_products(
    tiny_trace: Callable[..., Path], gate_is_fused: bool, qkv: Sequence[int]
) -> None:
    model = layer(gate_is_fused=gate_is_fused, qkv=qkv)
    found = roles(tiny_trace, [*model, *model, *model])
    assert found.pop("(unattributed)") == 6
    mlp = 150 if gate_is_fused else 213
    assert found == {"QKV": 36, "Attention": 300, "Output": 120, "MLP": 3 * mlp}


def test_sizes_that_are_no_numbers(tiny_trace: Callable[..., Path]) -> None:
    """They are as those of kernels without ops: unknown."""
    odd: Any = ("x", {})
    model = [("aten::mm", GEMM, work[2], odd) if work[3] else work for work in layer()]
    bare = [("", *work[1:3], None) if work[3] else work for work in layer()]
    assert roles(tiny_trace, model * 3) == roles(tiny_trace, bare * 3)


def test_a_head_between_two_tokens(tiny_trace: Callable[..., Path]) -> None:
    token = [*layer(), *layer(), *layer(), mm(500, 64, 32_000)]
    found = roles(tiny_trace, [*token, *token])
    assert (found["Linear"], found["QKV"], found["Output"]) == (500, 6 * 12, 240)
    # Behind the last layer it may be the head as well as what leads to a next attention.
    assert found["(unattributed)"] == 12 + 500


def test_attention_in_pieces_has_its_own_rows(tiny_trace: Callable[..., Path]) -> None:
    pieces: list[Work] = [
        ("aten::bmm", GEMM, 50, None),
        ("aten::_softmax", "void softmax_warp_forward<float>", 30, None),
        ("aten::bmm", GEMM, 51, None),
    ]
    model = []
    for work in layer():
        model += pieces if work[1] == FLASH else [work]
    found = roles(tiny_trace, [*model, *model])
    parts = {"QKV": 24, "Bmm0": 100, "Softmax": 60, "Bmm1": 102, "Output": 80, "MLP": 426}
    assert {role: found[role] for role in parts} == parts


@pytest.mark.parametrize(
    "works",
    [
        [mm(10, 8, 8), ("aten::relu", RELU, 5, None), mm(10, 8, 8)] * 3,
        [attention(9), mm(10, 8, 8), mm(11, 8, 8), ("aten::relu", RELU, 5, None), mm(12, 8, 8)] * 3,
        [*layer(), ("aten::silu", SILU, 5, None), mm(10, 64, 64), *layer()],
        [*layer(), mm(9, 64, 64), mm(9, 64, 64), mm(9, 64, 64), mm(9, 64, 64), *layer()],
    ],
    ids=["no attention", "no activation that is known", "two activations", "other products"],
)
def test_of_another_order_nothing_is_said(
    tiny_trace: Callable[..., Path], works: Sequence[Work]
) -> None:
    found = roles(tiny_trace, works)
    assert not {"QKV", "Output", "MLP", "Linear"} & {*found}
