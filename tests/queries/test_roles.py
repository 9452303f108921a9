"""Roles of device work in a decoder, the timeline of a serving engine, and their rules."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tracekit
from tracekit.analysis.rules import condition, load_range_rules, load_role_rules
from tracekit.errors import UsageError
from tracekit.sql_text import quote

Event = dict[str, Any]
Opened = Callable[[Path], tracekit.Trace]

FRAMES = "lightllm/models/llama/layer_infer"
TEMPLATE = "lightllm/common/basemodel/layer_infer/template/transformer_layer_infer_template.py"


class Recorder:
    """Writes spans as a program would: nested by `with`-like calls, each kernel behind the last."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 0.0
        self.device_now = 100.0
        self.correlation = 0

    def kernel(self, name: str, duration: float, op: str | None = None) -> None:
        start = self.now
        self.correlation += 1
        self._span("cuda_runtime", "cudaLaunchKernel", 1, 1, start + 0.5, 1, self.correlation)
        self.now += 2
        if op is not None:
            self._span("cpu_op", op, 1, 1, start, 2, None)
        begin = max(self.device_now, self.now)
        self._span("kernel", name, 0, 7, begin, duration, self.correlation)
        self.device_now = begin + duration

    def inside(self, category: str, name: str, *parts: Callable[[], None]) -> None:
        start = self.now
        self.now += 0.5
        for part in parts:
            part()
        self.now += 0.5
        self._span(category, name, 1, 1, start, self.now - start, None)

    def call(self, name: str, *parts: Callable[[], None]) -> None:
        self.inside("python_function", name, *parts)

    def _span(
        self,
        category: str,
        name: str,
        pid: int,
        tid: int,
        start: float,
        duration: float,
        correlation: int | None,
    ) -> None:
        args = {} if correlation is None else {"correlation": correlation, "device": 0, "stream": 7}
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": start,
                "dur": duration,
                "args": args,
            }
        )


def test_eager_attention_of_hugging_face(tiny_trace: Callable[..., Path]) -> None:
    """q, k, v and o are bare Linears; RoPE is a function; the products stand around the softmax."""
    r = Recorder()

    def linear(number: int, duration: float) -> Callable[[], None]:
        return lambda: r.call(
            f"nn.Module: Linear_{number}", lambda: r.kernel("gemm", duration, "aten::mm")
        )

    r.call(
        "nn.Module: LlamaForCausalLM_0",
        lambda: r.call("nn.Module: Embedding_0", lambda: r.kernel("gather", 1, "aten::embedding")),
        lambda: r.call(
            "nn.Module: LlamaDecoderLayer_0",
            lambda: r.call("nn.Module: LlamaRMSNorm_0", lambda: r.kernel("mul", 2, "aten::mul")),
            lambda: r.call(
                "nn.Module: LlamaAttention_0",
                linear(0, 3),
                linear(1, 3),
                linear(2, 3),
                lambda: r.call(
                    "transformers/modeling_llama.py(137): apply_rotary_pos_emb",
                    lambda: r.kernel("mul", 4, "aten::mul"),
                ),
                lambda: r.kernel("gemm", 5, "aten::bmm"),
                lambda: r.kernel("softmax", 6, "aten::_softmax"),
                lambda: r.kernel("gemm", 7, "aten::bmm"),
                lambda: r.kernel("copy", 8, "aten::copy_"),
                linear(3, 9),
            ),
            lambda: r.call(
                "nn.Module: LlamaMLP_0", linear(4, 10), lambda: r.kernel("silu", 11, "aten::silu")
            ),
            lambda: r.kernel("add", 12, "aten::add"),
        ),
        lambda: r.call("nn.Module: lm_head_0", lambda: r.kernel("gemm", 13, "aten::mm")),
    )
    trace = tracekit.open(tiny_trace(r.events), cache=False)
    result = trace.query("roles", phase="forward")
    found = dict(zip(result.column("role"), result.column("wall_ns"), strict=True))
    assert found == {
        "Embedding": 1_000,
        "RMSNorm": 2_000,
        "QKV": 9_000,
        "RoPE": 4_000,
        "Bmm0": 5_000,
        "Softmax": 6_000,
        "Bmm1": 7_000,
        "other in attention": 8_000,
        "Output": 9_000,
        "MLP": 21_000,
        "Linear": 13_000,
        "other": 12_000,
    }


def lightllm_step(r: Recorder, layers: int) -> None:
    def stage(name: str, *kernels: tuple[str, float]) -> Callable[[], None]:
        return lambda: r.call(name, *((lambda k=k: r.kernel(*k)) for k in kernels))

    all_reduce = ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 4.0)
    decode = f"{TEMPLATE}(681): _token_decode_attention_flashattention"

    def layer() -> None:
        r.call(
            f"{TEMPLATE}(102): token_forward",
            stage(f"{FRAMES}/transformer_layer_infer.py(134): _att_norm", ("norm", 1.0)),
            stage(f"{FRAMES}/transformer_layer_infer.py(148): _get_qkv", ("gemm", 3.0)),
            stage(decode, ("flash", 9.0)),
            stage(f"{FRAMES}/transformer_layer_infer.py(282): _get_o", ("gemm", 2.0)),
            lambda: r.kernel(*all_reduce),
            stage(f"{FRAMES}/transformer_layer_infer.py(141): _ffn_norm", ("norm", 1.0)),
            stage(f"{FRAMES}/transformer_layer_infer.py(311): _ffn", ("gemm", 10.0)),
            lambda: r.kernel(*all_reduce),
        )

    r.call(
        "lightllm/common/basemodel/basemodel.py(414): _token_forward",
        stage(f"{FRAMES}/pre_layer_infer.py(33): token_forward", ("embedding", 2.0)),
        *[layer] * layers,
        stage(f"{FRAMES}/post_layer_infer.py(67): token_forward", ("gemm", 6.0)),
    )


def test_timeline_of_lightllm(tiny_trace: Callable[..., Path]) -> None:
    """Two decode steps of three layers; an all-reduce belongs to the section before it."""
    r = Recorder()
    for _ in range(2):
        lightllm_step(r, 3)
    trace = tracekit.open(tiny_trace(r.events), cache=False)
    rows = trace.query("serving_timeline").to_dicts()
    assert [(row["section"], row["layer_count"], row["wall_ns"]) for row in rows] == [
        ("before transformer", 0, 4_000),
        ("attention", 3, 6 * 19_000),
        ("ffn", 3, 6 * 15_000),
        ("after transformer", 0, 12_000),
    ]
    assert {row["phase"] for row in rows} == {"decode"}
    roles = trace.query("roles")
    found = dict(zip(roles.column("role"), roles.column("wall_ns"), strict=True))
    assert found["MLP"] == 60_000
    assert found["non-overlapping communication"] == 48_000


def test_decoders_of_real_traces(opened: Opened, public_traces: Path) -> None:
    """Shares of the linked device time of the forward pass, worked out beside the product."""
    trace = opened(public_traces / "tl_b200_vllm_eager.json.gz")
    rows = {row["role"]: row["kernel_ns"] for row in trace.query("roles").to_dicts()}
    total = sum(rows.values())
    assert round(100 * rows["MLP"] / total) == 59
    assert round(100 * rows["non-overlapping communication"] / total) == 18
    assert rows["(unattributed)"] < 0.01 * total


def test_a_graph_replay_has_roles_by_place(opened: Opened, public_traces: Path) -> None:
    trace = opened(public_traces / "tl_mi300_sglang_decode_graph.json.gz")
    rows = {row["role"]: row for row in trace.query("roles").to_dicts()}
    total = sum(row["kernel_ns"] for row in rows.values())
    assert rows["MLP"]["inferred_ns"] == rows["MLP"]["kernel_ns"]
    assert rows["(unattributed)"]["kernel_ns"] < 0.02 * total


# -- rules -----------------------------------------------------------------------------------------


def test_a_plain_pattern_means_the_same_as_its_regular_expression() -> None:
    names = ["tk/phase/data", "tk/phase/data2", "Optimizer.zero_grad#SGD", "Optimizer_zero_grad"]
    names += ["## forward ##", "nccl:all_reduce", "step[EXTEND bs=1]", "autograd::engine::x"]
    with duckdb.connect() as connection:
        for pattern in (rule["pattern"] for rule in load_range_rules()):
            for name in names:
                sql = condition(pattern).replace("name", quote(name), 1)
                ((same,),) = connection.execute(
                    f"SELECT ({sql}) = regexp_matches({quote(name)}, {quote(pattern)})"
                ).fetchall()
                assert same, (pattern, name)


def test_the_builtin_patterns_are_regular_expressions() -> None:
    with duckdb.connect() as connection:
        for rule in (*load_range_rules(), *load_role_rules()):
            pattern = quote(rule["pattern"])
            assert connection.execute(f"SELECT regexp_matches('', {pattern})").fetchall()


def test_rules_of_the_user_come_first(tiny_trace: Callable[..., Path], tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        """
        [[range]]
        applies_to = "range"
        means = "module"
        phase = "prefill"
        pattern = '^my/(.*)$'
        label = '\\1'

        [[role]]
        role = "MLP"
        applies_to = "leaf"
        pattern = '^blob$'
        """
    )
    r = Recorder()
    r.inside("user_annotation", "my/blob", lambda: r.kernel("k", 5))
    with tracekit.open(tiny_trace(r.events), cache=False, rules=rules) as trace:
        (row,) = trace.query("roles").to_dicts()
        assert (row["phase"], row["role"], row["wall_ns"]) == ("prefill", "MLP", 5_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[range]]\napplies_to = 'range'\nmeans = 'module'", "has no pattern"),
        ("[[range]]\napplies_to = 'r'\nmeans = 'span'\npattern = 'x'", "applies_to is 'r'"),
        ("[[range]]\napplies_to = 'op'\nmeans = 'span'\npattern = '('", "no regular expression"),
        ("[[range]]\ncolour = 'red'", "unknown key 'colour'"),
        ("[[role]]\nrole = 'MLP'\napplies_to = 'leaf'", "has no pattern"),
        ("[[role]]\nrole = 'MLP'\napplies_to = 'x'\npattern = 'x'", "applies_to is 'x'"),
        ("[[role]]\nrole = 'MLP'\napplies_to = 'op'\npattern = '['", "no regular expression"),
    ],
)
def test_rules_that_are_not_valid(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    assert tomllib.loads(text)
    load = load_role_rules if text.startswith("[[role]]") else load_range_rules
    with pytest.raises(UsageError, match=message):
        load(path)
