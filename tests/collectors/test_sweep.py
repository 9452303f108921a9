"""`tracekit collect sweep`: cells and folders with a stand-in for the runs, and one sweep."""

import contextlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import running, wait_for

from tracekit import manifest
from tracekit.cli._main import main as tracekit_main
from tracekit.collectors.sweep import cell as sweep_cell
from tracekit.collectors.sweep.grid import LISTS, OPTIONS, make_grid
from tracekit.collectors.sweep.run import largest_batch
from tracekit.errors import UsageError

FAKE = Path(__file__).with_name("_fake_collect.py")
NAIVE = "pretrain_tiny_Naive_bs1_n1"


@pytest.fixture
def behave(tmp_path, monkeypatch):
    """Replace the runs by the stand-in; calling it sets its behavior and returns its calls."""
    collect = runpy.run_path(str(FAKE))["main"]

    def run_here(command, *_):
        stderr = io.StringIO()
        with contextlib.redirect_stderr(stderr):
            code = collect(command[command.index(str(FAKE)) + 1 :])
        return sweep_cell._Ended(code, stderr.getvalue())

    monkeypatch.setattr(sweep_cell, "COLLECT", (str(FAKE),))
    monkeypatch.setattr(sweep_cell, "_run", run_here)
    log = tmp_path / "calls"

    def set_behavior(**behavior):
        monkeypatch.setenv("FAKE_COLLECT", json.dumps({"log": str(log), **behavior}))
        calls = log.read_text().splitlines() if log.exists() else []
        log.write_text("")
        return calls

    set_behavior()
    return set_behavior


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def sweep(tmp_path, *arguments):
    return tracekit_main(["collect", "sweep", *arguments, "--out", str(tmp_path / "runs")])


def test_the_grid_is_every_combination():
    cells = make_grid({"opt": "Naive, z3+r,GC:topk", "batch_size": "1,4", "nproc": "1,2"})
    assert [cell.name for cell in cells] == [
        f"pretrain_tiny_{opt}_bs{size}_n{ranks}"
        for opt in ("Naive", "R+Z3", "GC-topk")
        for ranks in (1, 2)
        for size in (1, 4)
    ]
    assert set(LISTS) <= {option.key for option in OPTIONS}


def test_a_name_includes_layers_stage_and_an_unusual_engine():
    values = {"stage": "finetune", "model": "llama2-7b", "layers": "4", "opt": "L+Z2"}
    (cell,) = make_grid({**values, "engine": "fsdp2"})
    assert cell.name == "finetune_llama2-7b-4layers_L+Z2_fsdp2_bs1_n1"
    (cell,) = make_grid({**values, "engine": "deepspeed"})
    assert cell.name == "finetune_llama2-7b-4layers_L+Z2_bs1_n1"


def test_a_cell_passes_its_arguments_to_collect():
    (cell,) = make_grid({"opt": "R", "batch_size": "2", "steps": "7", "no_shapes": True})
    arguments = cell.arguments(Path("a/b"), force=False)
    for option, value in {"--out": "a/b", "--steps": "7", "--batch-size": "2"}.items():
        assert arguments[arguments.index(option) + 1] == value
    assert "--no-shapes" in arguments
    assert "--force" not in arguments


def test_max_needs_a_limit_without_a_gpu(monkeypatch):
    monkeypatch.setattr("tracekit.collectors.sweep.grid.accelerator_count", lambda: 0)
    with pytest.raises(UsageError):
        make_grid({"batch_size": "1,max"})
    cells = make_grid({"batch_size": "1,max", "memory_limit": "8GB"})
    assert [cell.name for cell in cells][1] == "pretrain_tiny_Naive_bsmax_n1"


def test_a_launcher_is_refused(tmp_path, behave, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert sweep(tmp_path, "--opt", "Naive") == 2
    assert behave() == []


def test_cells_run_in_order_and_finished_ones_are_skipped(tmp_path, behave, capsys):
    assert sweep(tmp_path, "--opt", "Naive,R", "--batch-size", "1,2") == 0
    assert [call.split()[:3] for call in behave()] == [
        [f"pretrain_tiny_{opt}_bs{size}_n1", opt, str(size)]
        for opt in ("Naive", "R")
        for size in (1, 2)
    ]
    seen = capsys.readouterr()
    assert f"tracekit query methods {tmp_path / 'runs'}\n" in seen.err
    assert "[3/4] pretrain_tiny_R_bs1_n1\n  1,000 tokens/s, ? GB, batch size 1 (" in seen.err
    assert sweep(tmp_path, "--opt", "Naive,R,F", "--batch-size", "1,2") == 0
    assert [call.split()[1] for call in behave()] == ["F", "F"]
    assert f"[1/6] {NAIVE}: skipped" in capsys.readouterr().err
    assert sweep(tmp_path, "--opt", "Naive,R", "--force") == 0
    assert len(behave()) == 2


def test_out_of_memory_is_a_result(tmp_path, behave):
    behave(largest_batch={"Naive": {"probe": 2, "measured": 2}})
    assert sweep(tmp_path, "--opt", "Naive,R", "--batch-size", "2,4") == 0
    assert manifest.read(tmp_path / "runs" / "pretrain_tiny_Naive_bs4_n1").outcome == "oom"
    behave()
    assert sweep(tmp_path, "--opt", "Naive,R", "--batch-size", "2,4") == 0
    assert behave() == []


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("failed", "rank 1 of 2 died: signal SIGSEGV"),
        ("refused", "deepspeed is not installed"),
        ("crashed", "the collector was ended by SIGKILL"),
    ],
)
def test_a_failed_cell_is_recorded_and_the_others_run(tmp_path, behave, way, reason):
    behave(**{way: ["R"]})
    assert sweep(tmp_path, "--opt", "Naive,R,F") == 6
    runs = tmp_path / "runs"
    assert names(runs) == [f"pretrain_tiny_{opt}_bs1_n1" for opt in ("F", "Naive", "R")]
    cell = runs / "pretrain_tiny_R_bs1_n1"
    run = manifest.read(cell)
    assert (run.outcome, run.reason, run.opt) == ("failed", reason, "R")
    if way == "refused":
        assert (cell / "logs" / "collect.log").read_text().startswith("note: something\nerror: ")
    # Once the cause is gone, the same command runs that cell alone.
    behave()
    assert sweep(tmp_path, "--opt", "Naive,R,F") == 0
    assert [call.split()[1] for call in behave()] == ["R"]
    assert manifest.read(cell).outcome == "ok"


def test_a_full_disk_ends_the_sweep(tmp_path, behave):
    behave(full_disk=["R"])
    assert sweep(tmp_path, "--opt", "Naive,R,F") == 4
    assert names(tmp_path / "runs") == [NAIVE]


def test_a_folder_with_other_contents_is_not_reused_for_the_cell(tmp_path, behave, capsys):
    """Neither a run with other arguments nor a folder without a run."""
    assert sweep(tmp_path, "--opt", "Naive", "--steps", "5") == 0
    assert sweep(tmp_path, "--opt", "R,Naive", "--steps", "6") == 2
    stderr = capsys.readouterr().err
    assert f"error: {tmp_path / 'runs' / NAIVE} " in stderr
    assert "measured_count is 5, not 6" in stderr
    assert names(tmp_path / "runs") == [NAIVE]
    folder = tmp_path / "runs" / "pretrain_tiny_F_bs1_n1"
    folder.mkdir()
    (folder / "thesis.tex").touch()
    assert sweep(tmp_path, "--opt", "F") == 2
    assert names(folder) == ["thesis.tex"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 1000])
def test_the_search_finds_the_largest_batch(limit):
    for largest in range(min(limit, 70) + 1):
        assert largest_batch(lambda size, largest=largest: size <= largest, limit) == largest


def test_max_is_the_largest_batch_that_fits(tmp_path, behave):
    """The search doubles and then bisects."""
    behave(largest_batch={"Naive": {"probe": 5, "measured": 5}})
    arguments = ("--batch-size", "1,max", "--memory-limit", "8GB", "--steps", "9")
    assert sweep(tmp_path, *arguments) == 0
    assert [call.split()[2:] for call in behave()] == [
        ["1", "9"],
        *([size, "1"] for size in ("1", "2", "4", "8", "6", "5")),
        ["5", "9"],
    ]
    assert names(tmp_path / "runs") == [NAIVE, "pretrain_tiny_Naive_bsmax_n1"]
    assert manifest.read(tmp_path / "runs" / "pretrain_tiny_Naive_bsmax_n1").batch_size == 5
    assert sweep(tmp_path, *arguments) == 0
    assert behave() == []


@pytest.mark.parametrize(
    ("behavior", "option", "sizes", "outcome", "batch_size"),
    [
        # The measured run needs more memory than the probes.
        ({"probe": 40, "measured": 37}, "--memory-limit=8GB", ["40", "38", "36"], "ok", 36),
        ({"probe": 99, "measured": 99}, "--max-batch-size=6", ["4", "6", "6"], "ok", 6),
        ({"probe": 0, "measured": 0}, "--memory-limit=8GB", ["1"], "oom", 1),
    ],
)
def test_the_limits_of_max(behavior, option, sizes, outcome, batch_size, tmp_path, behave):
    behave(largest_batch={"Naive": behavior})
    assert sweep(tmp_path, "--batch-size", "max", *option.split("=")) == 0
    assert [call.split()[2] for call in behave()][-len(sizes) :] == sizes
    run = manifest.read(tmp_path / "runs" / "pretrain_tiny_Naive_bsmax_n1")
    assert (run.outcome, run.batch_size) == (outcome, batch_size)


def test_a_probe_that_fails_fails_the_cell(tmp_path, behave):
    behave(failed=["Naive"])
    assert sweep(tmp_path, "--batch-size", "max", "--memory-limit", "8GB") == 6
    assert len(behave()) == 1
    assert names(tmp_path / "runs") == ["pretrain_tiny_Naive_bsmax_n1"]
    assert manifest.read(tmp_path / "runs" / "pretrain_tiny_Naive_bsmax_n1").outcome == "failed"


def hanging_sweep(tmp_path, *words):
    log = tmp_path / "calls"
    code = (
        "import sys; from tracekit.cli._main import main\n"
        "from tracekit.collectors.sweep import cell\n"
        f"cell.COLLECT = ({str(FAKE)!r},)\n"
        "sys.exit(main(['collect', 'sweep', *sys.argv[1:]]))"
    )
    given = json.dumps({"log": str(log), "hanging": ["R"]})
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words, "--out", str(tmp_path / "runs")],
        env={**os.environ, "FAKE_COLLECT": given},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pids = log.with_suffix(".pids")
    wait_for(lambda: pids.exists() and pids.read_text(), 300)
    return process, [int(pid) for pid in pids.read_text().split()]


@pytest.mark.parametrize(("number", "batch_size"), [(signal.SIGINT, "1"), (signal.SIGTERM, "max")])
def test_an_interrupt_leaves_no_process_and_no_half_cell(tmp_path, number, batch_size):
    words = ["--opt", "Naive,R,F", "--batch-size", batch_size, "--max-batch-size", "1"]
    process, pids = hanging_sweep(tmp_path, *words)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "1 of 3 cells" in errors
    assert names(tmp_path / "runs") == [f"pretrain_tiny_Naive_bs{batch_size}_n1"]
    assert running(pids) == []


def test_a_killed_sweep_takes_its_cell_with_it(tmp_path, behave):
    process, pids = hanging_sweep(tmp_path, "--opt", "R")
    # A cell that another sweep runs is left alone.
    assert sweep(tmp_path, "--opt", "R") == 2
    assert running(pids) == pids
    process.kill()
    process.communicate(timeout=300)
    behave()
    # The next sweep waits for processes that are still ending.
    assert sweep(tmp_path, "--opt", "R") == 0
    assert running(pids) == []
    assert names(tmp_path / "runs") == ["pretrain_tiny_R_bs1_n1"]
