"""Runs whose setup differs from the rows of the paper."""

import csv
import io
from pathlib import Path

import pytest

from tracekit.manifest import Environment, Parallel

REPO = Path(__file__).resolve().parents[2]
CUT = REPO / "tests" / "traces" / "llama2-7b_1_layer"
"""A run of the collectors: Llama2-7B with one of its layers, random weights, on a CPU."""

GEMM = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"
A800 = {
    "environment": Environment(devices=["NVIDIA A800-SXM4-80GB"] * 8, processor="Xeon"),
    "parallel": Parallel(world_size=8, data_size=8),
    "precision": "bf16",
    "sequence_length": 350,
}
"""The setup of the paper."""
ROW = {"batch_size": 1, "tokens_per_s_mean": 1.0}
"""A run of the paper's Table III."""


def forward(module, op=""):
    return f"tk/phase/forward;tk/module/forward/{module}{op}"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return an environment with a cache for the store of the shared run."""
    return {"TRACEKIT_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}


def rows_of(cli, *args, env=None):
    done = cli("compare", "paper", *args, "--format", "json", env=env)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.json()


def of_run(rows, run, *, is_beside):
    own = [row for row in rows if row["run"] == run]
    return [row for row in own if (row["paper_hardware"] is not None) == is_beside]


# -- what differs ----------------------------------------------------------------------------------


def test_the_setup_of_the_paper_has_no_mark(cli, write_run):
    folder = write_run("same", opt="Naive", **ROW, **A800)
    (row,) = of_run(rows_of(cli, "table3", folder), "same", is_beside=True)
    assert (row["mark"], row["differences"]) == (None, None)
    assert "mark" not in cli("compare", "paper", "table3", folder).stdout


def test_everything_that_differs_is_marked(cli, write_run):
    members = {"model": "tiny", "engine": "ddp", "parameter_count": 4_000_000}
    members |= {"sequence_length": 64, "precision": "fp32"}
    folder = write_run("other", opt="Naive", **ROW | {"batch_size": 4}, **members)
    (row,) = of_run(rows_of(cli, "table3", folder), "other", is_beside=True)
    assert row["mark"] == "MDFPBSW"
    assert row["differences"] == (
        "model tiny, not Llama2-7B; devices 1 × NVIDIA H200, not A800; framework ddp, not "
        "DeepSpeed; precision fp32, not bf16; batch size 4, not 1; sequence length 64, not 350; "
        "world size 1, not 8"
    )


def test_what_a_run_does_not_state_is_not_known_to_be_the_same(cli, write_run):
    members = {**A800, **ROW, "precision": None, "batch_size": None}
    folder = write_run("mute", opt="Naive", **members)
    (row,) = of_run(rows_of(cli, "table3", folder), "mute", is_beside=True)
    assert row["differences"] == "precision not stated, not bf16; batch size not stated, not 1"


def test_every_run_of_a_row_has_its_line(cli, write_run):
    write_run("bs1", opt="Z2", batch_size=1, tokens_per_s_mean=1.0, **A800)
    folder = write_run("bs8", opt="Z2", batch_size=8, tokens_per_s_mean=8.0, **A800)
    rows = [row for row in rows_of(cli, "table3", folder.parent) if row["run"]]
    assert [(row["run"], row["model"], row["mark"]) for row in rows] == [
        ("bs1", "Llama2-7B", None),
        ("bs8", "Llama2-7B", "B"),
    ]


def test_where_models_tell_rows_apart_another_stands_beside_the_nearest(cli, write_run):
    members = {"model": "tiny", "opt": "Z2", "batch_size": 1, "tokens_per_s_mean": 1.0, **A800}
    write_run("small", parameter_count=4_000_000, **members)
    write_run("large", parameter_count=14_000_000_000, **members)
    folder = write_run("unknown", **members)
    rows = rows_of(cli, "table3", folder.parent)
    found = {row["run"]: (row["model"], row["mark"]) for row in rows if row["run"]}
    assert (found["small"], found["large"]) == (("Llama2-7B", "M"), ("Llama2-13B", "M"))
    (row,) = of_run(rows, "unknown", is_beside=False)
    assert row["note"] == "model tiny: the paper has Llama2-7B or Llama2-13B"


@pytest.mark.parametrize(
    ("device", "platform", "mark"),
    [
        ("NVIDIA GeForce RTX 4090", "RTX4090", "W"),
        ("NVIDIA GeForce RTX 3090", "RTX4090", "DW"),
        ("NVIDIA GeForce RTX 3090", "RTX3090 w/ NVLink", "W"),
    ],
)
def test_devices_are_told_by_their_product(cli, write_run, device, platform, mark):
    members = {**A800, "environment": Environment(devices=[device]), "parallel": Parallel()}
    folder = write_run(
        "tuned", stage="finetune", opt="L", batch_size=1, tokens_per_s_mean=1.0, **members
    )
    rows = rows_of(cli, "table9", folder, "--platform", platform)
    assert [row["mark"] for row in rows if row["run"]] == [mark]


# -- conditions ------------------------------------------------------------------------------------


def test_a_product_of_another_shape_is_another_product(cli, write_run):
    mlp = forward("model.layers.0.mlp.gate_proj#Linear")
    work = [(f"{mlp};aten::mm|700,4096|4096,11008", GEMM, 20.0)]
    write_run("cut", layers=1, opt="Naive", batch_size=2, steps=[work] * 2, **A800)
    work = [(f"{mlp};aten::mm|700,256|256,688", GEMM, 20.0)]
    folder = write_run("tiny", model="tiny", opt="Naive", batch_size=2, steps=[work], **A800)
    rows = rows_of(cli, "table12", folder.parent)
    (cut,) = of_run(rows, "cut", is_beside=True)
    assert (cut["n"], cut["k"], cut["paper_m"], cut["our_m"]) == (11008, 4096, 666, 700)
    assert (cut["paper_time_ms"], cut["our_time_ms"], cut["mark"]) == (0.289, 0.02, "L")
    (tiny,) = of_run(rows, "tiny", is_beside=False)
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
        (row,) = of_run(rows_of(cli, "table3", folder), "a", is_beside=True)
        assert row["mark"] == mark


def test_a_real_run_of_one_layer_beside_the_paper(cli, kept):
    rows = rows_of(cli, "table6", CUT, env=kept)
    beside = of_run(rows, CUT.name, is_beside=True)
    assert len(beside) == 21
    assert {row["mark"] for row in beside} == {"LDFBSW"}
    strict = rows_of(cli, "table6", CUT, "--strict", env=kept)
    assert not of_run(strict, CUT.name, is_beside=True)
    assert {row["note"] for row in of_run(strict, CUT.name, is_beside=False)} == {
        "model llama2-7b, 1 of 32 layers: the paper has Llama2-7B"
    }


@pytest.mark.parametrize(
    ("table", "columns"), [("table6", 80), ("table13", 80), ("table15", 80), ("table5", 100)]
)
def test_people_read_it_on_narrow_terminals_too(cli, kept, table, columns):
    lines = cli(
        "compare", "paper", table, CUT, env=kept | {"COLUMNS": str(columns)}
    ).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    # A table, and no records.
    assert not [line for line in lines if line.startswith("─ row")]
    assert "L layers (1, not 32)" in " ".join(" ".join(lines).split())


def test_markdown_and_csv_have_the_same_figures(cli, kept):
    done = cli("compare", "paper", "table5", CUT, "--format", "markdown", env=kept)
    assert done.exit_code == 0
    head = next(line for line in done.stdout.splitlines() if line.startswith("| phase"))
    names = [cell.strip() for cell in head.strip("|").split("|")]
    assert names[:3] == ["phase", "paper_step %", "our_step %"]
    assert names[-1] == "mark"

    text = cli("compare", "paper", "table5", CUT, "--format", "csv", env=kept).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    told = rows_of(cli, "table5", CUT, env=kept)
    for row, other in zip(rows, told, strict=True):
        assert list(row) == list(other)
        assert row["mark"] == (other["mark"] or "")
