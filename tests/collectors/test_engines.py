"""Every method and engine trains on two ranks, and its trace shows what it did."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from training_cases import REPEATED

import tracekit
from tracekit import manifest

# Rows of what is no module's own work, which the framework puts between the modules.
FRAMEWORK_ROWS = {
    "(communication)",
    "(FSDP hooks)",
    "(gradient accumulation)",
    "(outside of autograd)",
    "(gradient compression)",
    "(loss)",
    "(ZeRO hooks)",
}

# How many of the ops of a rank in backward lie in no autograd node at most, and in modules at
# least. DeepSpeed copies and reduces its buckets behind the engine and in hooks; FSDP's hooks copy.
# Ops are counted: their times are luck in models so small.
OUTSIDE_AT_MOST = {"ddp": 0.05, "deepspeed": 0.45, "fsdp2": 0.05}
MODULES_AT_LEAST = {"ddp": 0.8, "deepspeed": 0.25, "fsdp2": 0.2}
MODULES = {"LlamaForCausalLM", "PeftModelForCausalLM", "lm_head", "model", "prompt_encoder"}

ManifestOf = Callable[[str], manifest.Manifest]
Opened = Callable[[Path], tracekit.Trace]


def test_loss_falls_on_a_fixed_batch(case: str, manifest_of: ManifestOf) -> None:
    run = manifest_of(case)
    assert run.outcome == "ok"
    for first, last in zip(run.extra["first_losses"], run.extra["last_losses"], strict=True):
        assert math.isfinite(last)
        assert last < first - 0.05


def test_the_manifest_tells_what_was_measured(case: str, manifest_of: ManifestOf) -> None:
    run = manifest_of(case)
    assert run.parallel == manifest.Parallel(world_size=2, data_size=2)
    assert run.traces == ["rank0.json.gz", "rank1.json.gz"]
    repeat_count = 2 if case in REPEATED else 1
    assert run.steps == manifest.Steps(1, 4, repeat_count, 1)
    assert len(run.repeats) == repeat_count
    for repeat in run.repeats:
        assert len(repeat.step_ns) == 4
        assert repeat.wall_ns >= sum(repeat.step_ns)
        assert repeat.tokens_per_s == pytest.approx(2 * 4 * 32 * 1e9 / repeat.wall_ns)
    rates = [repeat.tokens_per_s for repeat in run.repeats]
    assert run.tokens_per_s_mean == pytest.approx(sum(rates) / len(rates))
    if case in REPEATED:
        assert run.tokens_per_s_std == pytest.approx(abs(rates[0] - rates[1]) / math.sqrt(2))
    assert [rank.rank for rank in run.peak_memory] == [0, 1]
    assert all(rank.host_bytes and rank.device_allocated_bytes is None for rank in run.peak_memory)
    assert run.overhead is not None
    assert run.overhead.plain_step_ns
    assert run.overhead.ranges_step_ns
    assert run.overhead.profiled_step_ns
    assert {"torch", "transformers"} <= set(run.environment.packages)


def test_engines_compute_the_same_in_single_precision(manifest_of: ManifestOf) -> None:
    losses = [manifest_of(name).extra["last_losses"] for name in ("fp32 Naive", "fp32 Z2")]
    losses.append(manifest_of("fp32 fsdp2 Z2").extra["last_losses"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[2] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pretrain Naive", "pretrain R"),
        ("pretrain Z1", "pretrain Z2"),
        ("pretrain Z2", "pretrain R+Z3"),
        ("finetune QL", "finetune QL+R"),
        ("fsdp2 Z2", "fsdp2 R+Z3"),
    ],
)
def test_methods_that_only_save_memory_change_no_loss(
    one: str, other: str, manifest_of: ManifestOf
) -> None:
    assert manifest_of(one).extra["last_losses"] == manifest_of(other).extra["last_losses"]


@pytest.mark.parametrize(
    ("name", "trained", "total"),
    [
        # Llama of SMALL_LLAMA; LoRA of rank 64: A and B of 7 matrices in each of 2 layers.
        ("pretrain Naive", 127_296, 127_296),
        ("pretrain Z3", 127_296, 127_296),
        ("sharded while made", 127_296, 127_296),
        ("pretrain Q", 33_088, 127_296),
        ("finetune L", 151_552, 278_848),
        ("finetune QL", 151_552, 278_848),
        ("finetune LFA", 81_920, 278_848),
        ("finetune PT", 1_280, 128_576),
    ],
)
def test_parameters_are_counted(
    name: str, trained: int, total: int, manifest_of: ManifestOf
) -> None:
    model = manifest_of(name).model
    assert model is not None
    assert (model.trainable_parameter_count, model.parameter_count) == (trained, total)
    assert model.model_class == "LlamaForCausalLM"
    assert model.layer_count == 2


def test_flash_attention_is_named(manifest_of: ManifestOf) -> None:
    assert manifest_of("pretrain Naive").attention_backend == "eager"
    run = manifest_of("pretrain F")
    assert run.attention_backend == "torch SDPA, flash"
    assert run.attention_reason is not None
    assert "flash-attn does not run on cpu" in run.attention_reason


def test_gradient_compression_reports_what_it_sent(manifest_of: ManifestOf) -> None:
    report = manifest_of("pretrain GC:topk").extra["compression"]
    assert report["method"] == "topk"
    assert 0 < report["sent_bytes_per_step"] < report["dense_bytes_per_step"]


def test_a_trace_alone_tells_what_it_is(training_runs: Path) -> None:
    with gzip.open(training_runs / "finetune QL" / "rank1.json.gz", "rt", encoding="utf-8") as file:
        trace = json.load(file)
    found = {key: value for key, value in trace.items() if key.startswith("tracekit_")}
    assert found == {
        "tracekit_version": tracekit.__version__,
        "tracekit_stage": "finetune",
        "tracekit_engine": "ddp",
        "tracekit_opt": "QL",
        "tracekit_model": "small",
        "tracekit_precision": "bf16",
        "tracekit_batch_size": 1,
        "tracekit_sequence_length": 32,
        "tracekit_seed": 0,
        "tracekit_rank": 1,
        "tracekit_world_size": 2,
    }


@pytest.mark.parametrize(
    "name",
    [
        "pretrain Naive",
        "pretrain R",
        "pretrain R+Z3",
        "finetune QL",
        "finetune PT",
        "finetune L+R+Z3",
        "fsdp2 R+Z3",
    ],
)
def test_module_work_has_a_qualified_path(name: str, training_runs: Path, opened: Opened) -> None:
    rows = opened(training_runs / name).query("modules").to_dicts()
    placed: Counter[str] = Counter()
    unplaced: Counter[str] = Counter()
    for row in rows:
        path = row["module_path"]
        if path not in FRAMEWORK_ROWS:
            is_module = path.split(".")[0] in MODULES
            (placed if is_module else unplaced)[row["phase"]] += row["kernel_count"]
    phases = ["forward", "backward"] + ["recompute"] * ("R" in name.split(" ")[1].split("+"))
    for phase in phases:
        share = placed[phase] / (placed[phase] + unplaced[phase])
        assert share >= 0.97, f"{phase}: {share:.1%}"
    engine = "fsdp2" if name.startswith("fsdp2") else "deepspeed" if "Z" in name else "ddp"
    assert_backward_is_placed(rows, engine)


def assert_backward_is_placed(rows: list[dict[str, Any]], engine: str) -> None:
    """Check that what is computed in backward is that of modules, as far as the engine lets it."""
    work: Counter[str] = Counter()
    for row in rows:
        if row["phase"] == "backward" and row["module_path"] != "(communication)":
            is_module = row["module_path"].split(".")[0] in MODULES
            work["modules" if is_module else row["module_path"]] += row["kernel_count"]
    assert work["(outside of autograd)"] <= OUTSIDE_AT_MOST[engine] * work.total(), work
    assert work["modules"] >= MODULES_AT_LEAST[engine] * work.total(), work


def test_lost_backward_work_is_noticed(training_runs: Path, tmp_path: Path) -> None:
    """Without backward ranges and the nodes of products, their work is outside of autograd."""
    with gzip.open(training_runs / "pretrain Naive" / "rank0.json.gz") as file:
        trace = json.load(file)
    trace["traceEvents"] = [
        event
        for event in trace["traceEvents"]
        if not event.get("name", "").startswith("tk/module/backward/")
        and not event.get("name", "").endswith(("MmBackward0", "BmmBackward0"))
    ]
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(trace), "utf-8")
    with tracekit.open(path, cache=False) as lost:
        rows = lost.query("modules").to_dicts()
    with pytest.raises(AssertionError):
        assert_backward_is_placed(rows, "ddp")


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("pretrain Naive", {"comm_allreduce"}),
        ("pretrain Z2", {"comm_allreduce", "comm_allgather"}),
        ("pretrain R+Z3", {"comm_allreduce", "comm_allgather", "comm_reducescatter"}),
        ("fsdp2 R+Z3", {"comm_allgather", "comm_reducescatter"}),
        ("pretrain GC:topk", {"comm_allreduce", "comm_allgather"}),
    ],
)
def test_the_right_collectives_are_in_the_trace(
    name: str, classes: set[str], training_runs: Path, opened: Opened
) -> None:
    rows = opened(training_runs / name).query("communication").to_dicts()
    assert {row["class"] for row in rows} == classes


def test_zero3_gathers_in_forward_and_backward(training_runs: Path, opened: Opened) -> None:
    gathers = opened(training_runs / "pretrain R+Z3").sql(
        "SELECT phase, count(*) AS count FROM collective_events "
        "WHERE class = 'comm_allgather' GROUP BY phase"
    )
    assert {"forward", "backward"} <= set(gathers.column("phase"))


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("finetune QL", "bitsandbytes::"),
        ("pretrain F", "aten::_scaled_dot_product_flash_attention"),
    ],
)
def test_the_method_is_in_the_trace(
    name: str, op: str, training_runs: Path, opened: Opened
) -> None:
    ops = opened(training_runs / name).sql("SELECT DISTINCT name FROM op_calls").column("name")
    assert any(found.startswith(op) for found in ops)


def test_eager_attention_is_seen_in_its_parts(training_runs: Path, opened: Opened) -> None:
    parts = opened(training_runs / "pretrain Naive").sql(
        "SELECT DISTINCT name FROM annotations WHERE name LIKE 'tk/part/%' ORDER BY name"
    )
    assert parts.column("name") == [
        "tk/part/bmm0",
        "tk/part/bmm1",
        "tk/part/rope",
        "tk/part/softmax",
    ]
