"""Chains of kernels that a library has one kernel for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.analysis.rules import builtin_content, load_fusion_rules
from tracekit.errors import UsageError

Tiny = Callable[..., Path]
H200 = Path(__file__).parents[3] / "shared" / "h200"
LAYERS = {"llama_base": 8, "llama_bs8": 8, "llama_recompute": 8, "small_base": 12}


def ran(*calls: tuple[str, str, float]) -> list[dict[str, Any]]:
    """Ops that launch a kernel each, one after the other; the times are µs."""
    events, now = [], 0.0
    for number, (op, name, dur) in enumerate(calls, start=1):
        events += [
            *([span("cpu_op", op, now, now + 4)] if op else []),
            call(now + 1, now + 2, number),
            kernel(name, now + 3, now + 3 + dur, number),
        ]
        now += 5 + dur
    return events


NORM = [
    *(("aten::pow", "pow", 4.0), ("aten::mean", "mean", 3.0), ("aten::add", "add", 1.0)),
    *(("aten::rsqrt", "rsqrt", 1.0), ("aten::mul", "mul", 6.0), ("aten::copy_", "copy", 2.0)),
    ("aten::mul", "mul", 5.0),
]


def said(path: Path, rules: Path | None = None) -> list[dict[str, Any]]:
    with tracekit.open(path, cache=False, rules=rules) as trace:
        return trace.query("advice_fused").to_dicts()


def test_the_longest_kernel_of_a_chain_stays(tiny_trace: Tiny) -> None:
    other = ("aten::mul", "mul", 11.0)
    (row,) = said(tiny_trace(ran(*NORM, other, *NORM)))
    assert row["place"] == "RMSNorm in pieces"
    assert row["what"].startswith("RMSNorm in pieces: 2 chains of 7 kernels, 0.032 ms but")
    assert row["cost_ns"] == 2 * 16_000
    # Of 33 µs of multiplications 10 are gone: the longest of each chain, and the other one, stay.
    assert row["change"].split("; ")[0] == "op=aten::mul phase=forward x0.697"
    assert "op=aten::copy_ phase=forward x0.000" in row["change"]


@pytest.mark.parametrize(
    "calls",
    [
        NORM[:-1],
        [*NORM[:3], ("aten::mm", "gemm", 9.0), *NORM[3:]],
        [("aten::mul", "mul", 5.0), ("aten::silu", "silu", 5.0)],
        [("aten::silu", "silu", 5.0), ("aten::add", "add", 5.0), ("aten::mul", "mul", 5.0)],
    ],
)
def test_another_order_is_no_chain(tiny_trace: Tiny, calls: list[tuple[str, str, float]]) -> None:
    assert said(tiny_trace(ran(*calls))) == []


def test_work_between_two_of_a_chain_stays(tiny_trace: Tiny) -> None:
    up = ("aten::mm", "gemm", 50.0)
    (row,) = said(tiny_trace(ran(("aten::silu", "silu", 5.0), up, ("aten::mul", "mul", 7.0))))
    assert (row["place"], row["cost_ns"]) == ("SwiGLU in pieces", 5_000)
    assert row["change"] == "op=aten::silu phase=forward x0.000"


def test_kernels_of_a_graph_are_known_by_name(tiny_trace: Tiny) -> None:
    events = [
        call(0, 2, 1, "cudaGraphLaunch"),
        kernel("void cross_device_reduce_1stage<c10::BFloat16, 2>", 3, 13, 1),
        kernel("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>", 13, 17, 1),
    ]
    (row,) = said(tiny_trace(events))
    assert (row["place"], row["cost_ns"]) == ("all-reduce and norm", 4_000)
    assert "fuse_allreduce_rms" in row["remedy"]


def test_a_rules_file_adds_chains(tiny_trace: Tiny, tmp_path: Path) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text("[[fusion]]\nname = 'mine'\nchain = ' one$ >  two$'\nremedy = 'both()'\n")
    (row,) = said(tiny_trace(ran(("", "one", 2.0), ("", "two", 3.0))), rules)
    assert (row["place"], row["cost_ns"], row["remedy"]) == ("mine", 2_000, "both()")
    rules.write_text("[[fusion]]\nname = 'mine'\nchain = '('\nremedy = 'both()'\n")
    with pytest.raises(UsageError, match="no regular expression"):
        load_fusion_rules(rules)


# Ops that launch a kernel each, and kernels without an op.
CHAINS = {
    "RMSNorm in pieces": "aten::pow aten::mean aten::add aten::rsqrt aten::mul aten::mul",
    "SwiGLU in pieces": "aten::silu aten::mm aten::mul",
    "GeGLU in pieces": "aten::gelu aten::mm aten::mul",
    "RoPE in pieces": "aten::mul aten::neg aten::copy_ aten::cat aten::mul aten::add",
    "residual and norm": "aten::add aten::_fused_rms_norm",
    "all-reduce and norm": "ncclDevKernel_AllReduce_Sum_bf16 Memcpy rms_norm_kernel",
    "norm and quantization": "rms_norm_kernel scaled_fp8_quant_kernel",
    "activation and quantization": "act_and_mul_kernel per_token_group_quant",
}


RULES = {rule["name"]: rule for rule in builtin_content("fusions.toml")["fusion"]}


@pytest.mark.parametrize("name", sorted(CHAINS.keys() | RULES.keys()))
def test_each_chain_is_known_and_has_a_source(tiny_trace: Tiny, name: str) -> None:
    words = CHAINS[name].split()
    calls = [(word, "k", 5.0) if "::" in word else ("", word, 5.0) for word in words]
    (row,) = said(tiny_trace(ran(*calls)))
    assert (row["place"], row["remedy"]) == (name, RULES[name]["remedy"])
    assert RULES[name]["source"]


@pytest.mark.parametrize(("name", "layer_count"), LAYERS.items())
def test_chains_of_a_llama(name: str, layer_count: int) -> None:
    """Two norms a layer and one behind all, RoPE of queries and of keys, one MLP; 3 or 2 steps."""
    path = H200 / f"{name}.json.gz"
    if not path.is_file():
        pytest.skip(f"no recording {path}")
    with tracekit.open(path, cache=False) as trace:
        rows = {row["place"]: row for row in trace.query("advice_fused").to_dicts()}
        ((steps,),) = trace.sql("SELECT count(*) FROM event WHERE name = 'aten::embedding'").rows
        ((recomputed,),) = trace.sql(
            "SELECT count(*) > 0 FROM attributed_events WHERE phase = 'recompute'"
        ).rows
    passes = steps * (1 + recomputed)
    norms = steps * (2 * layer_count + 1) + recomputed * steps * 2 * layer_count
    for place, count in {
        "RMSNorm in pieces": norms,
        "RoPE in pieces": passes * 2 * layer_count,
        "SwiGLU in pieces": passes * layer_count,
    }.items():
        assert f": {count} chains" in rows[place]["what"], place
