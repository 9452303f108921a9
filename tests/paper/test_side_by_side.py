"""Comparison with the paper: matched and unmatched rows, and setups that differ."""

import csv
import io

import pytest
from every_trace import REPO

from tracekit.manifest import Environment, Load, Parallel, RankMemory
from tracekit.paper.bench_figures import BENCH_FIGURES
from tracekit.paper.tables import find_table

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::add>(int)"
GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

CUT = REPO / "tests" / "traces" / "llama2-7b_1_layer"
"""A run of the collectors: Llama2-7B with one of its layers, random weights, on a CPU."""

A800 = {
    "environment": Environment(devices=["NVIDIA A800-SXM4-80GB"] * 8, processor="Xeon"),
    "parallel": Parallel(world_size=8, data_size=8),
    "precision": "bf16",
    "sequence_length": 350,
}
"""The setup of the paper."""
ROW = {"batch_size": 1, "tokens_per_s_mean": 1.0}
"""A run of the paper's Table III."""


def forward(module):
    return f"tk/phase/forward;tk/module/forward/{module}"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return an environment with a cache for the store of the shared run."""
    return {"TRACEKIT_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}


def rows_of(cli, *args, env=None):
    done = cli("compare", "paper", *args, "--format", "json", env=env)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.json()


def rows_of_run(rows, run):
    """The lines with a run next to a row of the paper."""
    return [row for row in rows if row["run"] == run and row["paper_hardware"] is not None]


def alone(rows, run):
    return [row for row in rows if row["run"] == run and row["paper_hardware"] is None]


def test_everything_that_differs_is_marked(cli, write_run):
    members = {"model": "tiny", "engine": "ddp", "parameter_count": 4_000_000}
    members |= {"sequence_length": 64, "precision": "fp32"}
    folder = write_run("other", opt="Naive", **ROW | {"batch_size": 4}, **members)
    (row,) = rows_of_run(rows_of(cli, "table3", folder), "other")
    assert row["mark"] == "MDFPBSW"
    assert len(row["differences"].split("; ")) == 7


def test_unstated_facts_of_a_run_count_as_different(cli, write_run):
    members = {**A800, **ROW, "precision": None, "batch_size": None}
    folder = write_run("mute", opt="Naive", **members)
    (row,) = rows_of_run(rows_of(cli, "table3", folder), "mute")
    assert (row["mark"], row["differences"].count("not stated")) == ("PB", 2)


def test_every_run_of_a_row_has_its_line(cli, write_run):
    write_run("bs1", opt="Z2", **ROW, **A800)
    folder = write_run("bs8", opt="Z2", batch_size=8, tokens_per_s_mean=8.0, **A800)
    rows = [row for row in rows_of(cli, "table3", folder.parent) if row["run"]]
    assert [(row["run"], row["model"], row["mark"]) for row in rows] == [
        ("bs1", "Llama2-7B", None),
        ("bs8", "Llama2-7B", "B"),
    ]
    assert rows[0]["differences"] is None
    assert "mark" not in cli("compare", "paper", "table3", folder.with_name("bs1")).stdout


def test_another_model_is_compared_with_the_nearest_one(cli, write_run):
    members = {"model": "tiny", "opt": "Z2", "batch_size": 1, "tokens_per_s_mean": 1.0, **A800}
    write_run("small", parameter_count=4_000_000, **members)
    write_run("large", parameter_count=14_000_000_000, **members)
    folder = write_run("unknown", **members)
    rows = rows_of(cli, "table3", folder.parent)
    found = {row["run"]: (row["model"], row["mark"]) for row in rows if row["run"]}
    assert (found["small"], found["large"]) == (("Llama2-7B", "M"), ("Llama2-13B", "M"))
    (row,) = alone(rows, "unknown")
    assert row["note"] == "model tiny: the paper has Llama2-7B or Llama2-13B"


@pytest.mark.parametrize(
    ("device", "platform", "mark"),
    [
        ("NVIDIA GeForce RTX 4090", "RTX4090", "W"),
        ("NVIDIA GeForce RTX 3090", "RTX4090", "DW"),
        ("NVIDIA GeForce RTX 3090", "RTX3090 w/ NVLink", "W"),
    ],
)
def test_devices_are_identified_by_product(cli, write_run, device, platform, mark):
    members = {**A800, "environment": Environment(devices=[device]), "parallel": Parallel()}
    folder = write_run("tuned", stage="finetune", opt="L", **ROW, **members)
    rows = rows_of(cli, "table9", folder, "--platform", platform)
    assert [row["mark"] for row in rows if row["run"]] == [mark]


def test_a_product_of_another_shape_is_another_product(cli, write_run):
    mlp = forward("model.layers.0.mlp.gate_proj#Linear")
    work = [(f"{mlp};aten::mm|700,4096|4096,11008", GEMM, 20.0)]
    write_run("cut", layers=1, opt="Naive", batch_size=2, steps=[work] * 2, **A800)
    work = [(f"{mlp};aten::mm|700,256|256,688", GEMM, 20.0)]
    folder = write_run("tiny", model="tiny", opt="Naive", batch_size=2, steps=[work], **A800)
    rows = rows_of(cli, "table12", folder.parent)
    (cut,) = rows_of_run(rows, "cut")
    assert (cut["n"], cut["k"], cut["paper_m"], cut["our_m"]) == (11008, 4096, 666, 700)
    assert (cut["paper_time_ms"], cut["our_time_ms"], cut["mark"]) == (0.289, 0.02, "L")
    (tiny,) = alone(rows, "tiny")
    assert (tiny["n"], tiny["k"], tiny["our_m"]) == (688, 256, 700)
    assert tiny["note"] == "n 688, k 256: the paper has n 11008, k 4096"


@pytest.mark.nightly("opens three runs")
def test_a_model_of_another_shape_is_not_the_one_of_its_name(cli, write_run):
    """The name of a configuration's file may be anything."""
    folder = write_run("a", opt="Naive", parameter_count=7_000_000_000, **ROW, **A800)
    text = (folder / "run.json").read_text()
    for changed, mark in (
        ('"hidden_size": 4096', None),
        ('"hidden_size": 64', "M"),
        ('"vocab_size": 256, "hidden_size": 4096', "M"),
    ):
        (folder / "run.json").write_text(text.replace('"hidden_size": 4096', changed))
        (row,) = rows_of_run(rows_of(cli, "table3", folder), "a")
        assert row["mark"] == mark


@pytest.mark.nightly("reads a complete run")
def test_a_run_of_one_layer_next_to_the_paper(cli, kept):
    rows = rows_of(cli, "table6", CUT, env=kept)
    found = rows_of_run(rows, CUT.name)
    assert len(found) == 21
    assert {row["mark"] for row in found} == {"LDFBSW"}
    strict = rows_of(cli, "table6", CUT, "--strict", env=kept)
    assert not rows_of_run(strict, CUT.name)
    assert {row["note"] for row in alone(strict, CUT.name)} == {
        "model llama2-7b, 1 of 32 layers: the paper has Llama2-7B"
    }


def test_people_read_it_on_narrow_terminals_too(cli, kept):
    env = kept | {"COLUMNS": "80"}
    lines = cli("compare", "paper", "table13", CUT, env=env).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    # A table, and no records.
    assert not [line for line in lines if line.startswith("─ row")]
    assert "L layers (1, not 32)" in " ".join(" ".join(lines).split())


def test_strictly_a_run_has_the_method_model_layers_and_batch_size_of_its_row(cli, write_run):
    memory = [RankMemory(0, 60 * 10**9), RankMemory(1, 66 * 10**9)]
    speed = {"tokens_per_s_mean": 9000.5, "tokens_per_s_std": 3.0}
    write_run("fits", opt="Z3+R", batch_size=1, sequence_length=512, peak_memory=memory, **speed)
    write_run("oom", opt="Naive", batch_size=1, outcome="oom", reason="CUDA out of memory")
    write_run("large", opt="R", batch_size=32, tokens_per_s_mean=1.0)
    write_run("cut", opt="F", batch_size=1, layers=4, tokens_per_s_mean=1.0)
    write_run("other", opt="LFA", batch_size=1, tokens_per_s_mean=1.0)
    write_run("small", model="tiny", opt="Z3", batch_size=1, tokens_per_s_mean=1.0)
    tuned = write_run("tuned", stage="finetune", opt="L", batch_size=1, tokens_per_s_mean=1.0)
    rows = rows_of(cli, "table3", tuned.parent, "--strict")

    (fits,) = rows_of_run(rows, "fits")
    assert (fits["model"], fits["method"], fits["platform"]) == ("Llama2-7B", "R+Z3", "A800")
    assert (fits["paper_tokens_per_s"], fits["our_tokens_per_s"]) == (4738.8, 9000.5)
    assert (fits["paper_memory_gb"], fits["our_memory_gb"]) == (28.8, 66.0)
    assert (fits["paper_sequence_length"], fits["our_sequence_length"]) == (350, 512)
    assert (fits["paper_world_size"], fits["our_world_size"]) == (8, 1)

    (oom,) = rows_of_run(rows, "oom")
    outcomes = (oom["our_outcome"], oom["our_tokens_per_s"], oom["paper_outcome"])
    assert outcomes == ("oom", None, "ok")
    for name in ("large", "cut", "other", "small", "tuned"):
        (row,) = alone(rows, name)
        assert row["paper_tokens_per_s"] is None
        assert row["note"]
    # 38 methods of the paper, four runs with other methods, and one of another stage.
    assert len(rows) == 38 + 5
    shown = rows_of(cli, "table3", tuned.parent, "--platform", "RTX4090", "--strict")
    assert {row["platform"] for row in shown} == {"RTX4090", None}
    (row,) = rows_of_run(rows_of(cli, "table9", tuned.parent), "tuned")
    assert (row["method"], row["paper_tokens_per_s"]) == ("L", 14216.6)


def test_the_largest_batch_that_fits_is_in_table4(cli, write_run):
    for size, outcome in ((4, "ok"), (16, "ok"), (32, "oom")):
        folder = write_run(f"bs{size}", opt="Naive", batch_size=size, outcome=outcome)
    rows = rows_of(cli, "table4", folder.parent)
    assert {row["run"] for row in rows if row["run"]} == {"bs16"}
    (row,) = rows_of_run(rows, "bs16")
    assert (row["paper_batch_size"], row["our_batch_size"]) == (4, 16)
    assert [name for name in row if name == "our_batch_size"] == ["our_batch_size"]


def test_table2_is_about_two_frameworks(cli, write_run):
    write_run("megatron", engine="megatron", opt="Naive", batch_size=32, tokens_per_s_mean=5.0)
    folder = write_run("ddp", engine="ddp", opt="Naive", batch_size=1, tokens_per_s_mean=6.0)
    rows = rows_of(cli, "table2", folder.parent)
    (row,) = rows_of_run(rows, "megatron")
    rates = (row["paper_tokens_per_s"], row["our_tokens_per_s"])
    assert (row["framework"], *rates) == ("Megatron", 13977.0, 5.0)
    (row,) = alone(rows, "ddp")
    assert row["note"] == "engine ddp: the paper has Megatron or DeepSpeed"


def test_table1_lists_our_hardware_once(cli, write_run):
    write_run("a")
    write_run("b")
    folder = write_run("c", environment=Environment(processor="EPYC", core_count=2))
    rows = rows_of(cli, "table1", folder.parent)
    assert len(rows) == 3 + 2
    assert [(row["run"], row["our_gpu"], row["our_cpu"]) for row in rows[3:]] == [
        ("a", "NVIDIA H200", "Xeon, 16 cores"),
        ("c", None, "EPYC, 2 cores"),
    ]


TRAINING = [
    (forward("model.layers.0.mlp#LlamaMLP"), GEMM, 6.0),
    (forward("model.layers.0.self_attn#LlamaAttention"), ELEMENTWISE, 2.0),
    (forward("model.layers.1.self_attn#LlamaAttention"), ELEMENTWISE, 4.0),
    ("tk/phase/backward", GEMM, 19.0),
    ("tk/phase/backward", ALL_REDUCE, 9.0),
    ("tk/phase/optimizer", ELEMENTWISE, 4.0),
]


def test_phases_modules_and_shares_per_step(cli, write_run):
    folder = write_run("naive", opt="Naive", batch_size=2, steps=[TRAINING] * 2)
    rows = rows_of(cli, "table5", folder)
    found = {row["phase"]: row for row in rows}
    # Two steps; the very first kernel has no idle time before it.
    assert found["forward"]["our_overall_ms"] == pytest.approx((2 * 15 - 1) / 2 / 1000)
    assert found["backward"]["our_overall_ms"] == pytest.approx(0.030)
    assert found["optimizer"]["our_overall_ms"] == pytest.approx(0.005)
    assert found["backward"]["our_compute_kernel_ms"] == pytest.approx(0.019)
    assert (found["backward"]["paper_overall_ms"], found["backward"]["note"]) == (250.0, None)
    assert sum(row["our_step_pct"] for row in rows) == pytest.approx(100)

    rows = rows_of(cli, "table6", folder)
    mlp = next(row for row in rows if (row["phase"], row["module"]) == ("forward", "MLP"))
    assert (mlp["paper_time_ms"], mlp["our_time_ms"]) == (29.06, pytest.approx(0.006))
    rope = next(row for row in rows if (row["phase"], row["module"]) == ("forward", "RoPE"))
    assert rope["note"] == "the run has no such row in roles"
    (comm,) = (row for row in rows if row["module"] == "non-overlapping communication")
    assert comm["our_time_ms"] == pytest.approx(0.009)

    rows = rows_of_run(rows_of(cli, "table8", folder), "naive")
    found = [(row["phase"], row["our_attention_ms"]) for row in rows if row["our_attention_ms"]]
    assert found == [("forward", pytest.approx(0.003))]

    shares = {row["phase"]: row for row in rows_of_run(rows_of(cli, "table13", folder), "naive")}
    assert shares["forward"]["our_gemm_pct"] == pytest.approx(50)
    assert shares["backward"]["our_gemm_pct"] == pytest.approx(100 * 19 / 28)

    (row,) = rows_of_run(rows_of(cli, "table15", folder), "naive")
    assert (row["paper_time_s"], row["our_time_s"]) == (0.24, pytest.approx(9e-6))
    assert row["our_step_pct"] == pytest.approx(100 * 9 / 50, rel=0.02)


def test_the_norm_after_attention_is_not_attention(cli, write_run):
    """Hugging Face's `post_attention_layernorm` is named after attention, and was averaged in."""
    norm = forward("model.layers.0.post_attention_layernorm#LlamaRMSNorm")
    attention = forward("model.layers.0.self_attn#LlamaAttention")
    step = [(attention, ELEMENTWISE, 8.0), (norm, ELEMENTWISE, 2.0)]
    rows = rows_of(cli, "table8", write_run("naive", opt="Naive", batch_size=2, steps=[step]))
    found = {row["phase"]: row["our_attention_ms"] for row in rows_of_run(rows, "naive")}
    assert found["forward"] == pytest.approx(0.008)


def test_zero_stages_are_compared_with_tables_14_and_16(cli, write_run):
    folder = write_run("z2o", opt="R+Z2+O", batch_size=32, steps=[TRAINING] * 2)
    (row,) = rows_of_run(rows_of(cli, "table16", folder), "z2o")
    assert (row["method"], row["our_method"], row["model"]) == ("ZeRO-2", "R+Z2+O", "Llama2-7B")
    assert row["our_time_s"] == pytest.approx(9e-6)
    (row,) = rows_of_run(rows_of(cli, "table14", folder), "z2o")
    assert (row["our_time_s"], row["our_step_pct"]) == (0, 0)


def test_unknown_figures_of_a_run_are_empty_with_the_reason(cli, write_run):
    write_run("bare", opt="Naive", batch_size=2)
    write_run("failed", opt="Naive", batch_size=2, outcome="failed", reason="rank 1 died")
    folder = write_run("cut", opt="Naive", batch_size=2, layers=2, steps=[TRAINING])
    rows = rows_of(cli, "table5", folder.parent, "--strict")
    assert {row["note"] for row in rows_of_run(rows, "bare")} == {"the run has no trace"}
    assert {row["note"] for row in rows_of_run(rows, "failed")} == {"the run failed: rank 1 died"}
    assert {row["phase"] for row in alone(rows, "cut")} == {"forward", "backward", "optimizer"}


def test_serving_in_strict_mode_matches_the_same_engine(cli, write_run):
    batch = "tk/phase/decode;tk/batch/prefill_0(0)_decode_8(8)"
    attention = f"{batch};tk/module/forward/model.layers.0.self_attn#LlamaAttention"
    ffn = f"{batch};tk/module/forward/model.layers.0.mlp#LlamaMLP"
    step = [(attention, "_fwd_kernel_token_att1", 7.0), (ffn, GEMM, 3.0), (batch, ALL_REDUCE, 2.0)]
    load = Load(request_count=8, prompt_token_count=512, max_new_token_count=64)
    members = {"stage": "serve", "load": load, "steps": [step, step]}
    write_run("light", engine="lightllm", **members)
    folder = write_run("ours", engine="transformers", **members)
    rows = rows_of(cli, "table10", folder.parent)
    light = {(row["part"], row["task"]): row for row in rows_of_run(rows, "light")}
    triton = light["computation", "Triton"]
    assert (triton["paper_time_ms"], triton["our_time_ms"]) == (23.05, pytest.approx(0.007))
    assert triton["our_phase"] == "decode"
    assert light["communication", "(all)"]["our_time_ms"] == pytest.approx(0.002)
    assert light["other", "(all)"]["our_time_ms"] == pytest.approx(2.5e-3)
    total = [
        light[part, "(all)"]["our_pass_pct"] for part in ("computation", "communication", "other")
    ]
    assert sum(total) == pytest.approx(100)
    ours = {(row["part"], row["task"]): row for row in rows_of_run(rows, "ours")}
    assert ours["computation", "Triton"]["our_time_ms"] == triton["our_time_ms"]
    assert (triton["mark"], ours["computation", "Triton"]["mark"]) == ("DWR", "DFWR")
    rows = rows_of(cli, "table10", folder.parent, "--strict")
    assert alone(rows, "ours")
    assert not rows_of_run(rows, "ours")

    rows = rows_of(cli, "table11", folder.parent)
    sections = {row["section"]: row for row in rows_of_run(rows, "light")}
    assert sections["attention"]["our_time_ms"] == pytest.approx(7.5e-3)
    assert sections["transformer"]["our_time_ms"] == pytest.approx(11.5e-3)


@pytest.mark.parametrize("name", ["figure4", "figure6", "figure9"])
def test_figures_cannot_be_compared_with_runs(cli, write_run, name):
    done = cli("compare", "paper", name, write_run("q", opt="Q", batch_size=2))
    assert (done.exit_code, done.stdout) == (2, "")
    assert name in done.stderr


def test_an_unreadable_manifest_is_skipped_with_a_warning(cli, write_run):
    folder = write_run("broken")
    (folder / "run.json").write_text("{")
    write_run("fine", opt="Naive", batch_size=1)
    done = cli("compare", "paper", "table3", folder.parent, "--format", "json")
    assert done.exit_code == 0
    assert done.stderr.startswith(
        f"warning: skipped: {folder / 'run.json'}: the manifest is not JSON"
    )
    assert {row["run"] for row in done.json()} == {"fine", None}


def point(number, family, op, **members):
    times = {"median_ns": 1e6, "low_ns": 9e5, "high_ns": 1.1e6, "outcome": "ok"}
    device = {"device": "cuda:0", "device_name": "NVIDIA A100-SXM4-80GB", "timer": "cuda_event"}
    return {"bench_id": number, "family": family, "op": op, **times, **device, **members}


def product(number, m, n, k, series, **more):
    sizes = {"dtype": "bf16", "m": m, "n": n, "k": k, "series": series, "op": "mm"} | more
    return point(number, "gemm", sizes.pop("op"), **sizes)


@pytest.fixture
def run(make_run):
    sized = {"group_size": 8, "backend": "nccl", "dtype": "fp32"}
    lines = [
        product(0, 4096, 11008, 4096, "N11008_K4096"),
        product(1, 4608, 11008, 4096, "N11008_K4096"),
        product(2, 4109, 11008, 4096, "unaligned_N11008_K4096"),
        product(3, 64, 512, 512, "N512_K512"),
        product(4, 4096, 4096, 4096, "grouped", op="grouped_mm", batch=8),
        product(5, 4096, 4096, 4096, "llama2-7b/output"),
        point(6, "memcpy", "h2d", memory="pinned", message_bytes=1024),
        point(7, "memcpy", "d2d", message_bytes=1024),
        point(8, "collective", "all_gather", message_bytes=4096, **sized),
        point(9, "collective", "all_gather", message_bytes=8192, **sized),
        point(10, "collective", "reduce", message_bytes=4096, **sized),
        point(11, "collective", "all_reduce", message_bytes=4096, **sized),
    ]
    return str(make_run("ours", benchmarks=lines, stage="bench", engine="torch"))


@pytest.mark.parametrize("name", BENCH_FIGURES)
def test_no_figure_has_numbers_that_the_text_does_not_have(name):
    unknown = {"peak_pct", "latency_ms", "bandwidth_gb_per_s"}
    for row in find_table(name).rows:
        assert {row[column] for column in unknown & row.keys()} == {None}


def test_our_points_of_figure_11(run, cli):
    done = cli("compare", "paper", "figure11", run, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["curve"], row["is_curve_of_paper"], row["m"]) for row in rows] == [
        ("N11008_K4096", "true", "4096"),
        ("N11008_K4096", "true", "4608"),
        ("unaligned_N11008_K4096", "true", "4109"),
        ("N512_K512", "false", "64"),
    ]
    # 2 * 4096 * 11008 * 4096 operations in a millisecond, of 312 TFLOP/s.
    assert float(rows[0]["peak_pct"]) == pytest.approx(100 * 2 * 4096 * 11008 * 4096 / 312e9)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("figure12", ["h2d"]),
        ("figure13", ["all_gather", "all_gather"]),
        ("figure14", []),
        ("figure15", ["all_gather", "all_gather", "reduce"]),
    ],
)
def test_our_points_of_the_others(run, cli, name, expected):
    rows = rows_of(cli, name, run)
    assert [row["curve"] for row in rows] == expected
    assert all(row["is_curve_of_paper"] for row in rows)
    done = cli("compare", "paper", name, run, "--format", "markdown")
    assert done.stdout.startswith("## Microbenchmark: ")


def test_runs_without_points_are_refused(make_run, cli):
    done = cli("compare", "paper", "figure13", make_run("train"))
    assert done.exit_code == 5
    assert "bench_collectives needs" in done.stderr
