"""`tracekit collect … -- PROGRAM`: exit codes and run folders (loops/ tests the recording)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import finished

from tracekit import manifest

pytest.importorskip("torch")

COLLECT = [sys.executable, "-m", "tracekit.collectors", "--warmup", "1", "--steps", "2"]
COLLECT += ["--profile-steps", "2"]
NEEDED = 1 + 2 + 2 + 1 + 2
TRAINING = [sys.executable, str(Path(__file__).parent / "loops" / "programs" / "plain.py")]
nightly = pytest.mark.nightly("recorded programs run in the gate in loops/test_matrix.py")


def wrapped(folder, *program, **environment):
    return finished(*COLLECT, "--out", "run", "--", *program, cwd=folder, **environment)


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_programs_that_train_nothing(tmp_path):
    result = wrapped(tmp_path, sys.executable, "-c", "pass")
    assert result.returncode == 0
    assert "imported torch" in result.stderr
    assert wrapped(tmp_path, "no-such-program").returncode == 2
    result = finished(*COLLECT, "--opt", "Z3", "--", sys.executable, "-c", "pass", cwd=tmp_path)
    assert result.returncode == 2
    assert "--opt" in result.stderr
    assert left_in(tmp_path) == []
    assert wrapped(tmp_path, sys.executable, "-c", "import sys; sys.exit(5)").returncode == 5
    made = manifest.read(tmp_path / "run")
    assert (made.outcome, made.exit_code) == ("failed", 5)


def test_the_exit_code_with_a_closed_stderr(tmp_path):
    read, write = os.pipe()
    os.close(read)
    ending = [sys.executable, "-c", "raise SystemExit(3)"]
    command = [*COLLECT, "--out", "run", "--", *ending]
    done = subprocess.run(command, cwd=tmp_path, stderr=write, timeout=600, check=False)
    os.close(write)
    assert done.returncode == 3


def test_an_existing_name(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("keep")
    result = wrapped(tmp_path, sys.executable, "-c", "print('never')")
    assert (result.returncode, result.stdout) == (2, "")
    assert (tmp_path / "run" / "mine.txt").read_text() == "keep"


@nightly
def test_an_existing_name_under_a_launcher(tmp_path):
    """Other ranks would wait for a rank that fails, so the run uses another name."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("keep")
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}
    result = wrapped(tmp_path, *TRAINING, LOOP_STEPS=f"{NEEDED}", **slurm)
    assert result.returncode == 0, result.stderr
    assert left_in(tmp_path) == ["run", "run-2"]
    assert manifest.read(tmp_path / "run-2").traces == ["rank0.json.gz"]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    words = [*COLLECT, "--out", "file/run", "--", sys.executable, "-c", "print('runs')"]
    result = finished(*words, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "runs\n")
    assert "not a directory" in result.stderr.lower()


def test_the_machines_own_sitecustomize_runs_too(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    # It makes tracekit impossible to import, which is reported.
    (site / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'TRACEKIT_WRAP' in os.environ:\n"
        "    sys.modules['tracekit.collectors.loop.bootstrap'] = None\n"
    )
    result = wrapped(tmp_path, sys.executable, "-c", "pass", PYTHONPATH=str(site))
    assert result.returncode == 0
    assert f"{sys.executable}: " in result.stderr
    assert left_in(tmp_path) == ["site"]


@nightly
def test_the_inner_one_of_two_records(tmp_path):
    """A script under `tracekit collect` may call it itself; only one may profile."""
    inner = [*COLLECT, "--out", "inner", "--", *TRAINING]
    result = wrapped(tmp_path, *inner, LOOP_STEPS=f"{NEEDED + 4}")
    assert result.returncode == 0, result.stderr
    assert left_in(tmp_path) == ["inner"]
    assert manifest.read(tmp_path / "inner").outcome == "ok"


BAR = """
import os, sys, time, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(20):
    sys.stderr.write(f"\\r{number} of 20 |##  |")
    sys.stderr.flush()
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
while not os.path.exists("run/run.json"):
    time.sleep(0.05)
time.sleep(0.5)
sys.stderr.write("\\r20 of 20 |####|\\n")
"""


@nightly
def test_messages_begin_a_new_line_next_to_an_open_progress_bar(tmp_path):
    on_terminal = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])", *COLLECT]
    words = [*on_terminal, "--out", "run", "--", sys.executable, "-c", BAR]
    result = finished(*words, cwd=tmp_path)
    lines = [line for line in result.stdout.split("\n") if "tracekit: " in line]
    assert lines
    assert all(line.startswith("tracekit: ") for line in lines), lines
