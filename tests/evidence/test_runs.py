"""The scripts themselves, as a person runs them: from a checkout, and from a pack without network.

A few items of each part run with the sizes of a trial; all of them take minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
EVIDENCE = REPO / "evidence"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
]
# What would reach an index, if anything did.
WITHOUT_NETWORK = {
    "PIP_NO_INDEX": "1",
    "PIP_CONFIG_FILE": os.devnull,
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "OMP_NUM_THREADS": "1",
}


def run(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **variables},
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def results(out: Path, part: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / f"part{part}-results.json").read_text("utf-8"))
    return found


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {row["case"]: row["outcome"] for row in found["rows"]}


@pytest.fixture(autouse=True)
def _needs_torch() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")


def test_a_part_from_a_checkout(tmp_path: Path, python: Callable[[str], str]) -> None:
    out = tmp_path / "out"
    only = "pretrain R batch 32,trace of pretrain R batch 32,tables of training"
    said = run(
        *(python("libraries"), EVIDENCE / "run.py", "--part", "2", "--dry-run", "--out", out),
        *("--only", only),
        OMP_NUM_THREADS="1",
    )
    assert "all: 11 ok" in said
    found = results(out, 2)
    assert set(outcomes(found).values()) == {"ok"}
    table = next(row for row in found["rows"] if row["case"] == "table7")
    assert "tiny" in table["texts"]["tracekit paper table7"]
    page = (out / "evidence.md").read_text("utf-8")
    assert "No GPU was seen" in page
    assert "#### tracekit paper table7" in page
    with tarfile.open(out / "part2-runs-1.tar.gz") as archive:
        names = archive.getnames()
    assert "runs/pretrain_R_batch_32/run.json" in names
    assert "runs/pretrain_R_batch_32/rank0.json.gz" in names
    # What needs a GPU says so, and what did well is not done again.
    run(
        *(python("libraries"), EVIDENCE / "run.py", "--part", "3", "--dry-run", "--out", out),
        *("--only", "LightLLM,tables of the machine"),
    )
    light = results(out, 3)["rows"][0]
    assert light["outcome"] == "skipped"
    assert "needs a CUDA device" in light["reason"]
    again = run(
        *(python("libraries"), EVIDENCE / "run.py", "--part", "2", "--dry-run", "--out", out),
        *("--only", only, "--done", out / "part2-results.json"),
    )
    assert "start   pretrain R" not in again


def test_a_pack_without_index_and_route_out(tmp_path: Path) -> None:
    pack, out = tmp_path / "pack", tmp_path / "out"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    prepared = run(
        *(sys.executable, EVIDENCE / "prepare.py", pack),
        *("--parts", "tracekit,nvtx", "--python-version", version),
        CFLAGS="-O0",  # how fast it reads is no matter here
    )
    assert "tracekit" in prepared
    # This environment's packages stand for the host's, but for tracekit, which is brought.
    host = fresh_environment(tmp_path / "host")
    before = without_route()
    said = run(
        *(*before, host, pack / "evidence" / "run.py"),
        *("--part", "1", "--dry-run", "--out", out, "--only", "host,loop library,NCCL"),
        **WITHOUT_NETWORK,
    )
    found = results(out, 1)
    assert set(outcomes(found).values()) == {"ok"}, said
    assert found["pack"]["parts"][0]["name"] == "tracekit"
    assert found["problems"] == []
    shown = next(row for row in found["rows"] if row["case"] == "packages")["figures"]
    assert shown["tracekit"] is not None
    # The run folder came of the wheel, not of this checkout.
    with tarfile.open(out / "part1-runs-1.tar.gz") as archive:
        member = archive.extractfile("runs/loops/library/run.json")
        assert member is not None
        made = json.loads(member.read())
    assert made["outcome"] == "ok"
    if not before:
        pytest.skip("this kernel gives no network namespace: tried without index alone")


def without_route() -> list[str]:
    """Return what runs a command without any network but the loopback, if the kernel lets us."""
    command = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("unshare") is None:
        return []
    # NCCL and gloo talk to this very machine.
    shell = [*command, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    tried = subprocess.run([*shell, "true"], capture_output=True, check=False)
    return shell if tried.returncode == 0 else []


def fresh_environment(folder: Path) -> Path:
    """Return the Python of an environment that has this one's packages, less tracekit's own."""
    # pip is linked like the other packages.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    purelib = sysconfig.get_path("purelib")
    where = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout.strip()
    for path in Path(purelib).iterdir():
        # Links, so that the folder looks like one that pip has filled. An editable tracekit is
        # known by a file of paths, which is left out.
        target = Path(where) / path.name
        if "tracekit" not in path.name.lower() and not target.exists():
            target.symlink_to(path)
    return python
