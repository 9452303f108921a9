"""`tracekit collect` for tracekit's own workloads: run folders, exit codes, and errors."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import finished, ranks_of, running, wait_for

from tracekit import manifest
from tracekit.collectors.__main__ import main

_SMALL = ("--seq-len", "32", "--warmup", "1", "--steps", "2", "--repeats", "2")


pytest.importorskip("torch")
pytest.importorskip("transformers")

nightly = pytest.mark.nightly("training runs in the gate in test_engines.py")


@pytest.fixture
def at_work(tmp_path, small_model):
    process = subprocess.Popen(
        [
            *(str(Path(sys.executable).with_name("tracekit")), "collect"),
            *("--nproc", "2", "--model", str(small_model), "--out", str(tmp_path / "run")),
            *("--seq-len", "32", "--steps", "1000000"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    for line in process.stderr:
        if line.startswith("measuring"):
            break
    else:
        pytest.fail("the run ended before it measured anything")
    yield process
    process.kill()
    process.communicate()


def left_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != "cache")


needs_proc = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="looks for processes in /proc"
)


@nightly
def test_a_run_is_collected_and_broken_down(cli, tmp_path, small_model):
    pytest.importorskip("deepspeed")
    out = tmp_path / "run"
    given = ("--nproc", "2", "--model", small_model, *_SMALL)
    done = cli("collect", "--opt", "R+Z3", *given, "--out", out, "--breakdown")
    assert done.exit_code == 0, done.stderr
    assert "pretrain R+Z3  small (127 k parameters)" in done.stdout
    assert left_in(out) == ["logs", "rank0.json.gz", "rank1.json.gz", "run.json"]
    assert left_in(out / "logs") == ["rank0.log", "rank1.log"]
    run = manifest.read(out)
    assert run.command[:4] == ["tracekit", "collect", "--opt", "R+Z3"]
    assert (run.opt, run.engine, run.stage) == ("R+Z3", "deepspeed", "pretrain")
    # A result is not overwritten.
    done = cli("collect", "--out", out)
    assert done.exit_code == 2
    assert "--force" in done.stderr


def test_the_argument_of_deepspeeds_launcher_is_no_error(capsys):
    assert main(["--local_rank=0", "--opt", "Z1+Z2"]) == 2
    assert "--opt Z1+Z2" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--seed"], ["--seed", "1", "stray"], ["--no-seed"]])
def test_both_command_lines_refuse_a_wrong_usage_alike(cli, capsys, words):
    assert main(words) == 2
    problem, _ = capsys.readouterr().err.splitlines()
    assert problem.startswith("error: ")
    done = cli("collect", *words, is_here=True)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == problem


def test_megatron_needs_cuda(cli, tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    done = cli("collect", "--engine", "megatron")
    assert done.exit_code == 6
    assert "--engine megatron" in done.stderr


@pytest.mark.parametrize(
    ("package", "arguments", "needed_by"),
    [
        ("httptools", ("--stage", "serve", "--engine", "vllm"), "--engine vllm"),
        ("torch", (), "--opt Naive"),
        ("deepspeed", ("--opt", "R+Z3"), "--opt R+Z3"),
        ("bitsandbytes", ("--stage", "finetune", "--opt", "QL"), "--opt QL"),
        ("peft", ("--stage", "finetune", "--opt", "PT"), "--opt PT"),
    ],
)
def test_a_missing_package_is_named(package, arguments, needed_by, cli, tmp_path, monkeypatch):
    class Missing:
        def find_spec(self, name, *_):
            if name.partition(".")[0] == package:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    done = cli("collect", *arguments, is_here=True)
    assert done.exit_code == 6
    assert done.stderr.startswith(f"error: {needed_by} needs {package}")
    extra = "serve" if package == "httptools" else "collect"
    assert f"[{extra}]" in done.stderr
    assert left_in(tmp_path) == []


@nightly
@needs_proc
def test_a_rank_that_dies_ends_the_others_and_is_named(at_work, tmp_path):
    ranks = ranks_of(at_work.pid)
    assert len(ranks) == 2
    os.kill(ranks[1], signal.SIGKILL)
    _, stderr = at_work.communicate(timeout=300)
    out = tmp_path / "run"
    assert at_work.returncode == 6
    assert f"error: {out}: rank 1 of 2 died: signal SIGKILL" in stderr
    wait_for(lambda: not running(ranks), 300)
    run = manifest.read(out)
    assert (run.outcome, run.reason) == ("failed", "rank 1 of 2 died: signal SIGKILL")
    assert run.tokens_per_s_mean is None
    assert left_in(out / "logs") == ["rank0.log", "rank1.log"]


@nightly
@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_neither_files_nor_processes(number, at_work, tmp_path):
    ranks = ranks_of(at_work.pid)
    assert len(ranks) == 2
    os.kill(at_work.pid, number)
    at_work.communicate(timeout=300)
    assert at_work.returncode == 130
    wait_for(lambda: not running(ranks), 300)
    assert left_in(tmp_path) == []


@nightly
def test_out_of_memory_is_a_result(cli, tmp_path):
    out = tmp_path / "run"
    # Torch alone needs less than the limit; builds for GPUs need more than CPU builds.
    arguments = ("--batch-size", "16384", "--memory-limit", "3GB", "--out", out)
    done = cli("collect", "--nproc", "2", *arguments)
    assert done.exit_code == 6
    run = manifest.read(out)
    assert run.outcome == "oom"
    assert "can't allocate memory" in run.reason
    assert run.traces == []
    assert run.model.parameter_count == 4_212_992


@nightly
def test_under_torchrun(tmp_path, small_model):
    out = tmp_path / "run"
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    words = ("--stage", "finetune", "--opt", "l", "--with-stack", "--model", small_model, *_SMALL)
    collect = ("-m", "tracekit.collectors", *words, "--out", out)
    done = finished(sys.executable, *launcher, *collect, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out}\n"
    run = manifest.read(out)
    assert (run.opt, run.parallel.world_size) == ("L", 2)
    assert run.traces == ["rank0.json.gz", "rank1.json.gz"]
    assert left_in(tmp_path) == ["run"]
