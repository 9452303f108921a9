"""The grid of a sweep: its cells, their names, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracekit.cli._main import main
from tracekit.collectors.sweep import cell as sweep_cell
from tracekit.collectors.sweep.grid import LISTS, OPTIONS, make_grid
from tracekit.errors import UsageError

FAKE = Path(__file__).with_name("_fake_collect.py")

Runner = Callable[..., list[str]]


@pytest.fixture
def behave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Replace the runs by the stand-in; calling it sets what it does and returns its calls."""
    monkeypatch.setattr(sweep_cell, "COLLECT", (str(FAKE),))
    log = tmp_path / "calls"

    def set_behavior(**behavior: Any) -> list[str]:
        monkeypatch.setenv("FAKE_COLLECT", json.dumps({"log": str(log), **behavior}))
        calls = log.read_text().splitlines() if log.exists() else []
        log.write_text("")
        return calls

    set_behavior()
    return set_behavior


def sweep(tmp_path: Path, *arguments: str) -> int:
    return main(["sweep", *arguments, "--out", str(tmp_path / "runs")])


def test_the_grid_is_every_combination_and_its_names_say_what_they_are() -> None:
    cells = make_grid({"opt": "Naive, z3+r,GC:topk", "batch_size": "1,4", "nproc": "1,2"})
    assert [cell.name for cell in cells] == [
        "pretrain_tiny_Naive_bs1_n1",
        "pretrain_tiny_Naive_bs4_n1",
        "pretrain_tiny_Naive_bs1_n2",
        "pretrain_tiny_Naive_bs4_n2",
        "pretrain_tiny_R+Z3_bs1_n1",
        "pretrain_tiny_R+Z3_bs4_n1",
        "pretrain_tiny_R+Z3_bs1_n2",
        "pretrain_tiny_R+Z3_bs4_n2",
        "pretrain_tiny_GC-topk_bs1_n1",
        "pretrain_tiny_GC-topk_bs4_n1",
        "pretrain_tiny_GC-topk_bs1_n2",
        "pretrain_tiny_GC-topk_bs4_n2",
    ]


def test_a_name_tells_layers_stage_and_an_engine_that_is_not_the_usual() -> None:
    values = {"stage": "finetune", "model": "llama2-7b", "layers": "4", "opt": "L+Z2"}
    (cell,) = make_grid({**values, "engine": "fsdp2"})
    assert cell.name == "finetune_llama2-7b-4layers_L+Z2_fsdp2_bs1_n1"
    (cell,) = make_grid({**values, "engine": "deepspeed"})
    assert cell.name == "finetune_llama2-7b-4layers_L+Z2_bs1_n1"


def test_a_cell_gives_collect_its_arguments() -> None:
    (cell,) = make_grid({"opt": "R", "batch_size": "2", "steps": "7", "no_shapes": True})
    arguments = cell.arguments(Path("a/b"), force=False)
    assert arguments[arguments.index("--out") + 1] == "a/b"
    assert arguments[arguments.index("--steps") + 1] == "7"
    assert arguments[arguments.index("--batch-size") + 1] == "2"
    assert "--no-shapes" in arguments
    assert "--force" not in arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--opt", "Naive,,R"], "--opt 'Naive,,R': an item of the list is empty"),
        (["--opt", "Naive,Z9"], "--opt Z9: there is no method 'Z9'"),
        (["--opt", "R,r"], "two cells of the sweep would both be pretrain_tiny_R_bs1_n1"),
        (["--batch-size", "1,two"], "--batch-size is 'two', which is not an integer of 1 or more"),
        (["--batch-size", "0"], "--batch-size is '0', which is not an integer of 1 or more"),
        (["--stage", "serve"], "--stage is 'serve', not one of pretrain, finetune"),
        (
            ["--max-batch-size", "0"],
            "--max-batch-size is '0', which is not an integer of 1 or more",
        ),
        (["--memory-limit", "much"], "--memory-limit is 'much', which is no size"),
        (["--windows", "2"], "No such option '--windows'"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(
    tmp_path: Path,
    behave: Runner,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    assert sweep(tmp_path, "--nproc", "1", *arguments) == 2
    assert f"error: {message}" in capsys.readouterr().err
    assert behave() == []
    assert not (tmp_path / "runs").exists()


def test_max_needs_an_end_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.collectors.sweep.grid.accelerator_count", lambda: 0)
    with pytest.raises(UsageError, match="no end on a machine without a GPU"):
        make_grid({"batch_size": "1,max"})
    cells = make_grid({"batch_size": "1,max", "memory_limit": "8GB"})
    assert [cell.name for cell in cells][1] == "pretrain_tiny_Naive_bsmax_n1"


def test_out_is_needed(behave: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--opt", "Naive"]) == 2
    assert "error: --out is missing\n" in capsys.readouterr().err


def test_it_does_not_run_under_a_launcher(
    tmp_path: Path,
    behave: Runner,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert sweep(tmp_path, "--opt", "Naive") == 2
    assert "a sweep starts its ranks itself, but RANK and WORLD_SIZE" in capsys.readouterr().err


def test_every_list_is_an_argument_of_collect() -> None:
    assert set(LISTS) <= {option.key for option in OPTIONS}
