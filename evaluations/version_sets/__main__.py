"""`make sets`: tests tracekit with sets of old and new packages.

    make sets ARGS="[NAME…]"

Each set gets its own environment. A program runs there without tracekit and then, with tracekit
installed without extras, under `tracekit collect`. Its output and imported packages must be the
same, and the trace must account for all of its time. If the Python or packages of a set are
unavailable, the set is reported as skipped, not failed. Torch wheels come from TORCH_INDEX (without
CUDA, because PyPI's take gigabytes) or, if it is empty, from PyPI. Requirement TORCH selects the
newest version.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec import Struct

REPO = Path(__file__).resolve().parents[2]
TORCH_INDEX = os.environ.get("TORCH_INDEX", "https://download.pytorch.org/whl/cpu")
TORCH = os.environ.get("TORCH", "torch")
"""Requirement for the newest torch."""

OLD_TORCH = ("2.6.0", "2.8.0", "2.10.0")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

LOOP = """
import torch
torch.manual_seed(0)
{model}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(20):
    loss = loss_of(model)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, f"{{loss.item():.6f}}")
"""
OWN = LOOP.format(
    model="""
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
loss_of = lambda model: model(torch.randn(16, 64)).square().mean()
"""
)
LLAMA = LOOP.format(
    model="""
from transformers import LlamaConfig, LlamaForCausalLM
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=2, num_key_value_heads=2))
def loss_of(model):
    tokens = torch.randint(0, 64, (2, 16))
    return model(input_ids=tokens, labels=tokens).loss
"""
)


class Set(Struct, frozen=True):
    """Packages of a set, and a program to run with them. Without a program, a sample is read."""

    python: str
    packages: tuple[str, ...]
    program: str = OWN


SETS = {
    **{f"torch-{torch}": Set("3.11", (f"torch=={torch}+cpu", "numpy")) for torch in OLD_TORCH},
    **{f"core-{python}": Set(python, (), "") for python in PYTHONS},
    **{f"python-{python}": Set(python, (TORCH, "numpy")) for python in PYTHONS},
    **{
        f"transformers-{version}": Set("3.11", (TORCH, f"transformers=={version}.*"), LLAMA)
        for version in ("4.56", "4.57", "5.0", "5")
    },
}


class SkippedError(Exception):
    """The Python or the packages of a set are not available."""


def main(names: list[str]) -> None:
    """Test sets, print a line for each, and exit with an error if one fails."""
    unknown = set(names) - SETS.keys()
    if unknown:
        sys.exit(f"unknown set {', '.join(unknown)} (expected one of {', '.join(SETS)})")
    failed = False
    for name in names or SETS:
        with tempfile.TemporaryDirectory(prefix="tracekit-set-") as folder:
            try:
                result = tried(SETS[name], Path(folder))
            except SkippedError as reason:
                result = f"skipped: {reason}"
            except (AssertionError, subprocess.CalledProcessError) as error:
                failed = True
                result = f"FAILED: {error}\n{getattr(error, 'stderr', '') or ''}"
        sys.stdout.write(f"{name:20} {result}\n")
        sys.stdout.flush()
    sys.exit(failed)


def tried(one: Set, folder: Path) -> str:
    """Test a set, and return its versions.

    Raises:
        SkippedError: the Python or a package is not available.
        AssertionError: output or packages differ from the run without tracekit.
        CalledProcessError: a command failed.
    """
    python = environment(one, folder / "venv")
    program = folder / "program.py"
    program.write_text(one.program, "utf-8")
    alone = run(python, program)
    packages = freeze(python)
    run(*pip_of(python), "install", "--quiet", "--no-compile", REPO)
    changed = [line for line in packages if line not in freeze(python)]
    assert not changed, f"installing tracekit changed {', '.join(changed)}"
    tracekit = python.with_name("tracekit")
    recorded = REPO / "sample_traces" / "pretrain_Naive"
    if one.program:
        recorded = folder / "run"
        printed = run(tracekit, "collect", "--out", recorded, "--", python, program)
        assert printed == alone, f"the program printed {printed!r}, without tracekit {alone!r}"
    rows = json.loads(run(tracekit, "query", "timeline", recorded, "--format", "json"))
    assert rows, "there is no timeline"
    for row in rows:
        parts = ("compute_ns", "exposed_comm_ns", "exposed_memcpy_ns", "idle_ns")
        assert row["compute_ns"] > 0, "nothing was computed"
        assert sum(row[part] for part in parts) == row["window_ns"], row
    version = run(python, "-c", "import platform; print(platform.python_version())").strip()
    named = [line for line in packages if re.match("(torch|transformers)==", line)]
    return ", ".join([f"ok: Python {version}", *named])


def environment(one: Set, folder: Path) -> Path:
    """Return the Python of a new environment with the packages of a set."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    result = sys.executable if one.python == own else shutil.which(f"python{one.python}")
    python = folder / "bin" / "python"
    try:
        run(result or f"python{one.python}", "-m", "venv", folder)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SkippedError(f"no working python{one.python} found") from error
    index = ["--extra-index-url", TORCH_INDEX] if TORCH_INDEX else []
    try:
        if one.packages:
            run(*pip_of(python), "install", "--quiet", "--no-compile", *index, *one.packages)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.splitlines()
        reason = next((line for line in lines if line.startswith("ERROR: ")), "pip failed")
        raise SkippedError(reason.removeprefix("ERROR: ")) from error
    return python


def pip_of(python: Path) -> tuple[str | Path, ...]:
    """Return the pip command of an environment."""
    return (python, "-m", "pip", "--disable-pip-version-check", "--retries", "1")


def freeze(python: Path) -> list[str]:
    """Return the packages of an environment with their versions."""
    return run(python, "-m", "pip", "freeze", "--disable-pip-version-check").splitlines()


def run(*command: str | Path) -> str:
    """Return the output of a command, which does not inherit the environment."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "TRACEKIT_")) and name != "VIRTUAL_ENV"
    }
    return subprocess.run(
        [*map(str, command)],
        env={**env, "TRACEKIT_CACHE_DIR": tempfile.gettempdir() + "/tracekit-sets"},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    ).stdout


if __name__ == "__main__":
    main(sys.argv[1:])
