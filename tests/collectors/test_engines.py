"""Every method and engine trains on two ranks, and its trace shows the method."""

import math
from collections import Counter

import pytest
from trace_files import read_trace
from training_cases import CASES, GATE, REPEATED

import tracekit
from tracekit import manifest

# Rows of work that the framework does between the modules.
FRAMEWORK_ROWS = {
    "(communication)",
    "(FSDP hooks)",
    "(gradient accumulation)",
    "(outside of autograd)",
    "(gradient compression)",
    "(loss)",
    "(ZeRO hooks)",
}

# Maximum share of backward ops outside autograd nodes, and minimum share in modules. DeepSpeed
# copies and reduces its buckets after the backward pass and in hooks; FSDP's hooks copy. Ops are
# counted, as their times are noise in models so small.
OUTSIDE_AT_MOST = {"ddp": 0.05, "deepspeed": 0.45, "fsdp2": 0.05}
MODULES_AT_LEAST = {"ddp": 0.8, "deepspeed": 0.25, "fsdp2": 0.2}
MODULES = {"LlamaForCausalLM", "PeftModelForCausalLM", "lm_head", "model", "prompt_encoder"}


nightly = pytest.mark.nightly("a variant of the methods that are trained in the gate")


def of_runs(names, *cases):
    """Parametrize a test over runs, with the name first; mark some of them nightly."""
    params = [(case,) if isinstance(case, str) else case for case in cases]
    marks = [() if case[0] in GATE else nightly for case in params]
    given = [pytest.param(*case, marks=mark) for case, mark in zip(params, marks, strict=True)]
    return pytest.mark.parametrize(names, given)


@of_runs("case", *CASES)
def test_loss_falls_on_a_fixed_batch(case, manifest_of):
    run = manifest_of(case)
    assert run.outcome == "ok"
    for first, last in zip(run.extra["first_losses"], run.extra["last_losses"], strict=True):
        assert math.isfinite(last)
        assert last < first - 0.05


@of_runs("case", *CASES)
def test_the_manifest(case, manifest_of):
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
    assert run.overhead.plain_step_ns
    assert run.overhead.ranges_step_ns
    assert run.overhead.profiled_step_ns
    assert {"torch", "transformers"} <= set(run.environment.packages)
    assert (run.environment.thread_count, bool(run.environment.processor)) == (1, True)


@nightly
def test_engines_compute_the_same_in_single_precision(manifest_of):
    losses = [manifest_of(name).extra["last_losses"] for name in ("fp32 Naive", "fp32 Z2")]
    losses.append(manifest_of("fp32 fsdp2 Z2").extra["last_losses"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[2] == pytest.approx(losses[0], rel=1e-4)


@nightly
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
def test_methods_that_only_save_memory_change_no_loss(one, other, manifest_of):
    assert manifest_of(one).extra["last_losses"] == manifest_of(other).extra["last_losses"]


# SMALL_LLAMA; LoRA of rank 64: A and B of 7 matrices in each of 2 layers.
@of_runs(
    "name, trained, total",
    ("pretrain Naive", 127_296, 127_296),
    ("pretrain Z3", 127_296, 127_296),
    ("sharded while made", 127_296, 127_296),
    ("pretrain Q", 33_088, 127_296),
    ("finetune L", 151_552, 278_848),
    ("finetune QL", 151_552, 278_848),
    ("finetune LFA", 81_920, 278_848),
    ("finetune PT", 1_280, 128_576),
)
def test_parameters_are_counted(name, trained, total, manifest_of):
    model = manifest_of(name).model
    assert (model.trainable_parameter_count, model.parameter_count) == (trained, total)
    assert model.model_class == "LlamaForCausalLM"
    assert model.layer_count == 2


@nightly
def test_flash_attention_is_named(manifest_of):
    assert manifest_of("pretrain Naive").attention_backend == "eager"
    run = manifest_of("pretrain F")
    assert run.attention_backend == "torch SDPA, flash"
    assert run.attention_reason


@of_runs("case", "pretrain GC:powersgd", "pretrain GC:topk")
def test_gradient_compression_reports_the_bytes_sent(case, manifest_of):
    report = manifest_of(case).extra["compression"]
    assert report["method"] == case.partition(":")[2]
    assert 0 < report["sent_bytes_per_step"] < report["dense_bytes_per_step"]


def test_a_trace_describes_its_run(training_run):
    trace = read_trace(training_run("finetune QL") / "rank1.json.gz")
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


@of_runs("name", *GATE[:4], "pretrain R", "finetune PT", "finetune L+R+Z3")
def test_module_work_has_a_qualified_path(name, training_run, opened):
    rows = opened(training_run(name)).query("modules").to_dicts()
    placed = Counter()
    unplaced = Counter()
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


def assert_backward_is_placed(rows, engine):
    work = Counter()
    for row in rows:
        if row["phase"] == "backward" and row["module_path"] != "(communication)":
            is_module = row["module_path"].split(".")[0] in MODULES
            work["modules" if is_module else row["module_path"]] += row["kernel_count"]
    assert work["(outside of autograd)"] <= OUTSIDE_AT_MOST[engine] * work.total(), work
    assert work["modules"] >= MODULES_AT_LEAST[engine] * work.total(), work


@of_runs(
    "name, classes",
    ("pretrain Naive", {"comm_allreduce"}),
    ("pretrain Z2", {"comm_allreduce", "comm_allgather"}),
    ("pretrain R+Z3", {"comm_allreduce", "comm_allgather", "comm_reducescatter"}),
    ("fsdp2 R+Z3", {"comm_allgather", "comm_reducescatter"}),
    ("pretrain GC:topk", {"comm_allreduce", "comm_allgather"}),
)
def test_the_right_collectives_are_in_the_trace(name, classes, training_run, opened):
    rows = opened(training_run(name)).query("communication").to_dicts()
    assert {row["class"] for row in rows} == classes


def test_zero3_gathers_in_forward_and_backward(training_run, opened):
    gathers = opened(training_run("pretrain R+Z3")).sql(
        "SELECT phase, count(*) AS count FROM collective_events "
        "WHERE class = 'comm_allgather' GROUP BY phase"
    )
    assert {"forward", "backward"} <= set(gathers.column("phase"))


@of_runs(
    "name, op",
    ("finetune QL", "bitsandbytes::"),
    ("pretrain F", "aten::_scaled_dot_product_flash_attention"),
)
def test_the_method_is_in_the_trace(name, op, training_run, opened):
    ops = opened(training_run(name)).sql("SELECT DISTINCT name FROM op_calls").column("name")
    assert any(found.startswith(op) for found in ops)


def test_eager_attention_is_seen_in_its_parts(training_run, opened):
    parts = opened(training_run("pretrain Naive")).sql(
        "SELECT DISTINCT name FROM annotations WHERE name LIKE 'tk/part/%' ORDER BY name"
    )
    assert parts.column("name") == [
        "tk/part/bmm0",
        "tk/part/bmm1",
        "tk/part/rope",
        "tk/part/softmax",
    ]
