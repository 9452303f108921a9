"""`tracekit collect`: what it leaves and says when all goes well, and when it does not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import ranks_of, running, wait_for

from tracekit import manifest

Cli = Callable[..., Any]
_SMALL = ("--seq-len", "32", "--warmup", "1", "--steps", "2", "--repeats", "2")
_ENDLESS = ("--seq-len", "32", "--steps", "1000000")


@pytest.fixture(autouse=True)
def _needs_torch() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")


# The command itself, in a process of its own, which starts its ranks by another Python.
_WITH_RANKS_OF = (
    "import runpy, sys; sys.executable = sys.argv.pop(1);"
    "runpy.run_path(sys.argv.pop(1), run_name='__main__')"
)


@pytest.fixture
def at_work(
    tmp_path: Path, small_model: Path, python: Callable[[str], str]
) -> Iterator[subprocess.Popen[str]]:
    """Return a collect command whose two ranks are at work, and would be for hours."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", _WITH_RANKS_OF, python("libraries")),
            *(str(Path(sys.executable).with_name("tracekit")), "collect"),
            *("--nproc", "2", "--model", str(small_model), "--out", str(tmp_path / "run")),
            *_ENDLESS,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("measuring"):
            break
    else:
        pytest.fail("the run ended before it measured anything")
    yield process
    process.kill()
    process.communicate()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "cache")


needs_proc = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="looks for processes in /proc"
)


def test_a_run_is_collected_and_broken_down(cli: Cli, tmp_path: Path, small_model: Path) -> None:
    pytest.importorskip("deepspeed")
    out = tmp_path / "run"
    given = ("--nproc", "2", "--model", small_model, *_SMALL)
    done = cli("collect", "--opt", "R+Z3", *given, "--out", out, "--breakdown")
    assert done.exit_code == 0, done.stderr
    assert "pretrain R+Z3  small (127 k parameters)" in done.stdout
    assert re.search(
        r"^pretrain small R\+Z3 \(deepspeed\), 2 ranks: [\d,]+ ± [\d,]+ tokens/s, "
        r"peak \d\.\d\d GB a rank$",
        done.stderr,
        re.MULTILINE,
    )
    assert left_in(out) == ["logs", "rank0.json.gz", "rank1.json.gz", "run.json"]
    assert left_in(out / "logs") == ["rank0.log", "rank1.log"]
    run = manifest.read(out)
    assert run.command[:4] == ["tracekit", "collect", "--opt", "R+Z3"]
    assert (run.opt, run.engine, run.stage) == ("R+Z3", "deepspeed", "pretrain")
    # What holds a result is not written over.
    done = cli("collect", "--out", out)
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: {out} already holds a run\n"
        "hint: choose another name with --out, or replace it with --force\n"
    )


def test_one_rank_and_no_tracekit_command(
    tmp_path: Path, small_model: Path, python: Callable[[str], str]
) -> None:
    out = tmp_path / "run"
    done = subprocess.run(
        [
            *(python("libraries"), "-m", "tracekit.collectors"),
            *("--stage", "finetune", "--opt", "l"),
            *("--model", str(small_model), "--out", str(out), *_SMALL, "--with-stack"),
        ],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout == f"{out}\n"
    run = manifest.read(out)
    assert (run.opt, run.parallel.world_size, run.traces) == ("L", 1, ["rank0.json.gz"])


def test_a_wrong_combination_is_refused_at_once(cli: Cli, tmp_path: Path) -> None:
    done = cli("collect", "--opt", "Z1+Z2", "--out", tmp_path / "run", is_here=True)
    assert done.exit_code == 2
    assert done.stderr == "error: --opt Z1+Z2: Z1 and Z2 exclude each other\n"
    assert left_in(tmp_path) == []


def test_what_deepspeeds_launcher_adds_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    from tracekit.collectors.__main__ import main

    assert main(["--local_rank=0", "--opt", "Z1+Z2"]) == 2
    assert capsys.readouterr().err == "error: --opt Z1+Z2: Z1 and Z2 exclude each other\n"


@pytest.mark.parametrize("words", [["--seed"], ["--seed", "1", "stray"], ["--no-seed"]])
def test_both_command_lines_refuse_a_wrong_usage_alike(
    cli: Cli, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    from tracekit.collectors.__main__ import main

    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    done = cli("collect", *words, is_here=True)
    assert (done.exit_code, done.stdout) == (2, "")
    problem, hint = said.splitlines()
    assert done.stderr.startswith(f"{problem}\nhint: tracekit")
    assert hint == "hint: python -m tracekit.collectors --help shows what it takes"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--requests", "3"), "--requests is for --stage serve, not for pretrain"),
        (("--steps", "0"), "--steps is '0', which is not an integer of 1 or more"),
        (("--steps", "two"), "--steps is 'two', which is not an integer of 1 or more"),
        (("--seq-len", "1"), "--seq-len is 1, but a next token needs at least 2 tokens"),
        (("--learning-rate", "0"), "--learning-rate is '0', which is not a number above 0"),
        (("--gc-density", "2"), "--gc-density is '2', which is not a number above 0 and up to 1"),
        (("--memory-limit", "much"), "--memory-limit is 'much', which is no size"),
        (("--precision", "int3"), "--precision is 'int3', not one of bf16, fp16, fp32"),
        (
            ("--model", "gpt-9"),
            "--model is 'gpt-9', which is neither a known model nor a configuration file",
        ),
        (("--layers", "5", "--model", "tiny"), "--layers is 5, but tiny has 4 layers"),
        (("--tp", "3", "--engine", "megatron"), "--tp is 3, which does not divide 1 ranks"),
        (
            ("--engine", "fsdp2", "--opt", "Z3", "--precision", "fp16"),
            "--engine fsdp2 has no loss scaling here, which --precision fp16 needs",
        ),
        (
            ("--opt", "GC:topk", "--precision", "fp16"),
            (
                "--opt GC:topk: what was not sent is carried over, but --precision fp16 changes "
                "the gradient's scale from step to step"
            ),
        ),
    ],
)
def test_wrong_values_are_refused(
    arguments: tuple[str, ...], message: str, cli: Cli, tmp_path: Path
) -> None:
    done = cli("collect", *arguments, is_here=True)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[0] == f"error: {message}"
    assert left_in(tmp_path) == []


def test_megatron_needs_cuda(cli: Cli, tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    done = cli("collect", "--engine", "megatron")
    assert done.exit_code == 6
    assert done.stderr == "error: --engine megatron needs CUDA devices, and there are none here\n"


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
def test_a_missing_package_is_named(
    package: str, arguments: tuple[str, ...], needed_by: str, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "path").mkdir()
    # The first thing that Python runs: it finds the package nowhere.
    (tmp_path / "path" / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] == {package!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n",
        "utf-8",
    )
    done = cli("collect", *arguments, env={"PYTHONPATH": str(tmp_path / "path")})
    assert done.exit_code == 6
    extra = "serve" if package == "httptools" else "collect"
    assert done.stderr == (
        f"error: {needed_by} needs {package}, which is not installed\n"
        f"hint: pip install 'tracekit-llm[{extra}]', or only: pip install {package}\n"
    )
    assert left_in(tmp_path) == ["path"]


@needs_proc
def test_a_rank_that_dies_ends_the_others_and_is_named(
    at_work: subprocess.Popen[str], tmp_path: Path, cli: Cli
) -> None:
    ranks = ranks_of(at_work.pid)
    assert len(ranks) == 2
    os.kill(ranks[1], signal.SIGKILL)
    _, stderr = at_work.communicate(timeout=30)
    out = tmp_path / "run"
    assert at_work.returncode == 6
    assert stderr.splitlines()[-2:] == [
        f"error: {out}: rank 1 of 2 died: signal SIGKILL",
        f"hint: the ranks' logs are in {out}/logs",
    ]
    wait_for(lambda: not running(ranks), 1)
    # The folder tells it, whole, and gives way to the next attempt.
    assert left_in(tmp_path) == ["model"] * (tmp_path / "model").exists() + ["run"]
    run = manifest.read(out)
    assert (run.outcome, run.reason) == ("failed", "rank 1 of 2 died: signal SIGKILL")
    assert run.tokens_per_s_mean is None
    assert left_in(out / "logs") == ["rank0.log", "rank1.log"]
    done = cli("collect", "--opt", "Z1+Z2", "--out", out, is_here=True)
    assert "exclude each other" in done.stderr


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_neither_files_nor_processes(
    number: signal.Signals, at_work: subprocess.Popen[str], tmp_path: Path
) -> None:
    ranks = ranks_of(at_work.pid)
    assert len(ranks) == 2
    os.kill(at_work.pid, number)
    at_work.communicate(timeout=30)
    assert at_work.returncode == 130
    wait_for(lambda: not running(ranks), 1)
    assert left_in(tmp_path) == []


def test_out_of_memory_is_a_result(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "run"
    # Below the limit is what torch itself takes, of which a build for GPUs takes more.
    arguments = ("--batch-size", "16384", "--memory-limit", "3GB", "--out", out)
    done = cli("collect", "--nproc", "2", *arguments)
    assert done.exit_code == 6
    assert re.search(rf"^error: {out}: out of memory: rank [01]: ", done.stderr, re.MULTILINE)
    run = manifest.read(out)
    assert run.outcome == "oom"
    assert run.reason is not None
    assert "can't allocate memory" in run.reason
    assert run.traces == []
    assert run.model is not None
    assert run.model.parameter_count == 4_212_992
    # It is a result: it is not written over by accident.
    assert cli("collect", "--out", out).exit_code == 2


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path, small_model: Path) -> None:
    resource = pytest.importorskip("resource")

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    out = tmp_path / "run"
    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("tracekit")), "collect"),
            *("--model", str(small_model), "--out", str(out), *_SMALL),
        ],
        capture_output=True,
        encoding="utf-8",
        preexec_fn=limit_files,
        check=False,
    )
    assert done.returncode == 4
    assert done.stderr.splitlines()[-2:] == [
        f"error: {out}: the run folder cannot be written: No space left on device",
        "hint: free some space, or write elsewhere with --out; nothing was left behind",
    ]
    assert left_in(tmp_path) == []


def test_under_torchrun_it_takes_its_place(
    tmp_path: Path, small_model: Path, python: Callable[[str], str]
) -> None:
    out = tmp_path / "run"
    done = subprocess.run(
        [
            *(python("libraries"), "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "-m", "tracekit.collectors"),
            *("--opt", "R", "--model", str(small_model), "--out", str(out), *_SMALL),
        ],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out}\n"
    run = manifest.read(out)
    assert run.parallel.world_size == 2
    assert run.traces == ["rank0.json.gz", "rank1.json.gz"]
    assert left_in(tmp_path) == ["run"]
