"""`tracekit sweep`: the cells and their folders, with a stand-in for the runs; then a real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import running, wait_for

import tracekit
from tracekit import manifest
from tracekit.cli._main import main as tracekit_main
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


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def sweep(tmp_path: Path, *arguments: str) -> int:
    return tracekit_main(["sweep", *arguments, "--out", str(tmp_path / "runs")])


# -- the grid --------------------------------------------------------------------------------------


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
    assert tracekit_main(["sweep", "--opt", "Naive"]) == 2
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


# -- running it ------------------------------------------------------------------------------------


def test_cells_run_in_order_and_finished_ones_are_skipped(
    tmp_path: Path, behave: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(tmp_path, "--opt", "Naive,R", "--batch-size", "1,2") == 0
    assert [call.split()[:3] for call in behave()] == [
        [f"pretrain_tiny_{opt}_bs{size}_n1", opt, str(size)]
        for opt in ("Naive", "R")
        for size in (1, 2)
    ]
    seen = capsys.readouterr()
    assert f"compare them: tracekit query methods {tmp_path / 'runs'}\n" in seen.err
    assert "[3/4] pretrain_tiny_R_bs1_n1\n  1,000 tokens/s, ? GB, batch size 1 (" in seen.err
    assert sweep(tmp_path, "--opt", "Naive,R,F", "--batch-size", "1,2") == 0
    assert [call.split()[1] for call in behave()] == ["F", "F"]
    skipped = "[1/6] pretrain_tiny_Naive_bs1_n1: skipped, finished before: 1,000 tokens/s"
    assert skipped in capsys.readouterr().err


def test_force_runs_all_again(tmp_path: Path, behave: Runner) -> None:
    assert sweep(tmp_path, "--opt", "Naive,R") == 0
    assert sweep(tmp_path, "--opt", "Naive,R", "--force") == 0
    assert len(behave()) == 4
    assert names(tmp_path / "runs") == ["pretrain_tiny_Naive_bs1_n1", "pretrain_tiny_R_bs1_n1"]


def test_out_of_memory_is_a_result(
    tmp_path: Path, behave: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    behave(largest_batch={"Naive": {"probe": 2, "measured": 2}})
    assert sweep(tmp_path, "--opt", "Naive,R", "--batch-size", "2,4") == 0
    assert "out of memory: rank 0: can't allocate memory (" in capsys.readouterr().err
    folder = tmp_path / "runs" / "pretrain_tiny_Naive_bs4_n1"
    assert manifest.read(folder).outcome == "oom"
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
def test_a_failed_cell_is_recorded_and_the_others_run(
    tmp_path: Path, behave: Runner, capsys: pytest.CaptureFixture[str], way: str, reason: str
) -> None:
    behave(**{way: ["R"]})
    assert sweep(tmp_path, "--opt", "Naive,R,F") == 6
    seen = capsys.readouterr()
    assert f"  failed: {reason} (" in seen.err
    assert "error: 1 of 3 cells failed: pretrain_tiny_R_bs1_n1\n" in seen.err
    runs = tmp_path / "runs"
    assert names(runs) == [f"pretrain_tiny_{opt}_bs1_n1" for opt in ("F", "Naive", "R")]
    run = manifest.read(runs / "pretrain_tiny_R_bs1_n1")
    assert (run.outcome, run.reason, run.opt) == ("failed", reason, "R")
    # Once the cause is gone, the same command runs that cell alone.
    behave()
    assert sweep(tmp_path, "--opt", "Naive,R,F") == 0
    assert [call.split()[1] for call in behave()] == ["R"]
    assert manifest.read(runs / "pretrain_tiny_R_bs1_n1").outcome == "ok"


def test_what_a_refused_cell_said_is_in_its_logs(tmp_path: Path, behave: Runner) -> None:
    behave(refused=["R"])
    assert sweep(tmp_path, "--opt", "R") == 6
    log = tmp_path / "runs" / "pretrain_tiny_R_bs1_n1" / "logs" / "collect.log"
    assert log.read_text().startswith("note: something\nerror: deepspeed is not installed\n")


def test_a_full_disk_ends_the_sweep(
    tmp_path: Path, behave: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    behave(full_disk=["R"])
    assert sweep(tmp_path, "--opt", "Naive,R,F") == 4
    assert "the run folder cannot be written: No space left\n" in capsys.readouterr().err
    assert names(tmp_path / "runs") == ["pretrain_tiny_Naive_bs1_n1"]


def test_a_folder_of_other_arguments_is_not_taken_for_the_cell(
    tmp_path: Path, behave: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(tmp_path, "--opt", "Naive", "--steps", "5") == 0
    assert sweep(tmp_path, "--opt", "R,Naive", "--steps", "6") == 2
    folder = tmp_path / "runs" / "pretrain_tiny_Naive_bs1_n1"
    assert (
        f"error: {folder} holds a run of other arguments: its measured_count is 5, not 6\n"
        in capsys.readouterr().err
    )
    assert names(tmp_path / "runs") == [folder.name]


def test_a_folder_that_is_no_run_is_left_alone(
    tmp_path: Path, behave: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "pretrain_tiny_Naive_bs1_n1"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").touch()
    assert sweep(tmp_path, "--opt", "Naive") == 2
    assert f"error: {folder} exists and is no run folder" in capsys.readouterr().err
    assert names(folder) == ["thesis.tex"]


def test_a_program_of_ones_own_is_for_collect(capsys: pytest.CaptureFixture[str]) -> None:
    assert tracekit_main(["sweep", "--out", "runs", "--", "python", "train.py"]) == 2
    message = "error: a sweep runs the stages, no program of your own: that is for collect\n"
    assert message in capsys.readouterr().err


# -- the largest batch -----------------------------------------------------------------------------


def test_max_is_the_largest_batch_that_fits(
    tmp_path: Path, behave: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    behave(largest_batch={"Naive": {"probe": 5, "measured": 5}})
    arguments = ("--batch-size", "1,max", "--memory-limit", "8GB", "--steps", "9")
    assert sweep(tmp_path, *arguments) == 0
    assert [call.split()[2:] for call in behave()] == [
        ["1", "9"],
        *([size, "1"] for size in ("1", "2", "4", "8", "6", "5")),
        ["5", "9"],
    ]
    assert names(tmp_path / "runs") == [
        "pretrain_tiny_Naive_bs1_n1",
        "pretrain_tiny_Naive_bsmax_n1",
    ]
    assert manifest.read(tmp_path / "runs" / "pretrain_tiny_Naive_bsmax_n1").batch_size == 5
    assert "  batch size 8: out of memory: rank 0" in capsys.readouterr().err
    assert sweep(tmp_path, *arguments) == 0
    assert behave() == []


def test_max_steps_down_when_the_measured_run_needs_more(tmp_path: Path, behave: Runner) -> None:
    behave(largest_batch={"Naive": {"probe": 40, "measured": 37}})
    assert sweep(tmp_path, "--batch-size", "max", "--memory-limit", "8GB") == 0
    assert [call.split()[2] for call in behave()][-3:] == ["40", "38", "36"]
    assert manifest.read(tmp_path / "runs" / "pretrain_tiny_Naive_bsmax_n1").batch_size == 36


def test_max_stops_at_its_limit_and_says_so(
    tmp_path: Path, behave: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(tmp_path, "--batch-size", "max", "--max-batch-size", "6") == 0
    assert [call.split()[2] for call in behave()] == ["1", "2", "4", "6", "6"]
    assert "larger ones were not tried: --max-batch-size is 6\n" in capsys.readouterr().err


def test_max_of_what_does_not_fit_at_all_is_out_of_memory(tmp_path: Path, behave: Runner) -> None:
    behave(largest_batch={"Naive": {"probe": 0, "measured": 0}})
    assert sweep(tmp_path, "--batch-size", "max", "--memory-limit", "8GB") == 0
    run = manifest.read(tmp_path / "runs" / "pretrain_tiny_Naive_bsmax_n1")
    assert (run.outcome, run.batch_size) == ("oom", 1)


def test_a_probe_that_fails_fails_the_cell(tmp_path: Path, behave: Runner) -> None:
    behave(failed=["Naive"])
    assert sweep(tmp_path, "--batch-size", "max", "--memory-limit", "8GB") == 6
    assert len(behave()) == 1
    assert names(tmp_path / "runs") == ["pretrain_tiny_Naive_bsmax_n1"]
    assert manifest.read(tmp_path / "runs" / "pretrain_tiny_Naive_bsmax_n1").outcome == "failed"


# -- interrupts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "batch_size"), [(signal.SIGINT, "1"), (signal.SIGTERM, "max")])
def test_an_interrupt_leaves_no_process_and_no_half_cell(
    tmp_path: Path, number: signal.Signals, batch_size: str
) -> None:
    words = ["--opt", "Naive,R,F", "--batch-size", batch_size, "--max-batch-size", "1"]
    process, pids = hanging_sweep(tmp_path, *words)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: 1 of 3 cells are finished; the same command goes on" in errors
    assert names(tmp_path / "runs") == [f"pretrain_tiny_Naive_bs{batch_size}_n1"]
    assert running(pids) == []


def hanging_sweep(tmp_path: Path, *words: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a sweep whose cell R hangs; return it when it does, with the pids of cell and rank."""
    log = tmp_path / "calls"
    code = (
        "import sys; from tracekit.cli._main import main\n"
        "from tracekit.collectors.sweep import cell\n"
        f"cell.COLLECT = ({str(FAKE)!r},)\n"
        "sys.exit(main(['sweep', *sys.argv[1:]]))"
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
    wait_for(lambda: pids.exists() and pids.read_text())
    return process, [int(pid) for pid in pids.read_text().split()]


@pytest.mark.parametrize("batch_size", ["1", "max"])
def test_a_killed_sweep_takes_its_cell_with_it(
    tmp_path: Path, behave: Runner, batch_size: str
) -> None:
    words = ["--opt", "R", "--batch-size", batch_size, "--max-batch-size", "1"]
    process, pids = hanging_sweep(tmp_path, *words)
    process.kill()
    process.communicate(timeout=60)
    behave()
    # At once: what is still ending is waited for.
    assert sweep(tmp_path, *words) == 0
    assert running(pids) == []
    assert names(tmp_path / "runs") == [f"pretrain_tiny_R_bs{batch_size}_n1"]


def test_a_cell_that_another_sweep_runs_is_left_alone(
    tmp_path: Path, behave: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    process, pids = hanging_sweep(tmp_path, "--opt", "R")
    try:
        assert sweep(tmp_path, "--opt", "R") == 2
        folder = tmp_path / "runs" / "pretrain_tiny_R_bs1_n1"
        said = f"error: {folder} is being made by another sweep, process {process.pid}\n"
        assert said in capsys.readouterr().err
        assert running(pids) == pids
    finally:
        process.terminate()
        process.communicate(timeout=60)


# -- for real --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(
    tmp_path_factory: pytest.TempPathFactory, python: Callable[[str], str]
) -> tuple[Path, Callable[[], Any]]:
    """Sweep two cells of two ranks once; return their folder, and the command to run it again."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    runs = tmp_path_factory.mktemp("sweep") / "runs"
    # An even number of steps in all, and of profiled ones: ACP-SGD sends P and Q in turn.
    few = ["--layers", "1", "--seq-len", "16", "--steps", "1", "--repeats", "2"]
    words = [*few, "--profile-steps", "2", "--nproc", "2", "--opt", "Naive,GC:acpsgd"]
    command = [python("libraries"), "-m", "tracekit", "sweep", *words, "--out", str(runs)]

    def run() -> Any:
        return subprocess.run(
            [*command, "--format", "json"],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    done = run()
    assert done.returncode == 0, done.stderr
    (runs.parent / "stdout").write_text(done.stdout)
    (runs.parent / "stderr").write_text(done.stderr)
    return runs, run


def test_a_real_sweep_leaves_a_run_folder_for_each_cell(real: tuple[Path, Any]) -> None:
    runs, run_again = real
    rows = json.loads((runs.parent / "stdout").read_text())
    assert [row["cell"] for row in rows] == names(runs)[::-1]
    assert [row["outcome"] for row in rows] == ["ok", "ok"]
    assert all(row["tokens_per_s_mean"] > 0 and row["peak_bytes"] > 10**7 for row in rows)
    hint = f"compare them: tracekit query methods {runs}\n"
    assert (runs.parent / "stderr").read_text().endswith(hint)
    for folder in runs.iterdir():
        assert {"run.json", "rank0.json.gz", "rank1.json.gz"} <= set(names(folder))
    again = run_again()
    assert again.stderr.count("skipped, finished before") == 2
    assert json.loads(again.stdout) == rows


def test_the_trace_shows_the_bytes_that_compression_saves(real: tuple[Path, Any]) -> None:
    runs, _ = real
    sent = {}
    for folder in runs.iterdir():
        with tracekit.open(folder, cache=False) as trace:
            collectives = trace.query("collectives").to_dicts()
        sent[folder.name] = sum(
            row["message_bytes"]
            for row in collectives
            if row["rank"] == 0
            and row["class"] == "comm_allreduce"
            and row["span_of"] == "transfer"
        )
    report = manifest.read(runs / "pretrain_tiny-1layers_GC-acpsgd_bs1_n2").extra["compression"]
    assert sent == {
        "pretrain_tiny-1layers_Naive_bs1_n2": 2 * report["dense_bytes_per_step"],
        "pretrain_tiny-1layers_GC-acpsgd_bs1_n2": 2 * report["sent_bytes_per_step"],
    }
    assert report["sent_bytes_per_step"] < report["dense_bytes_per_step"] / 40
