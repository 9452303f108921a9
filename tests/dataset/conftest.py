"""What the tests of engines and datasets share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from alone import alone
from made_datasets import make
from run_of_ranks import read_apart, write_ranks


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache and a folder for temporary files of the test's own."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def a_batch_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small traces be read apart too, where there is more than one worker."""
    read_apart(monkeypatch)


@pytest.fixture
def dataset_of(shared_folder: Path, tmp_path: Path) -> Callable[[int], Path]:
    """Return a function that gives the dataset of a run of some ranks, for the test to keep.

    Each is made once for all workers, where the run lies, and copied.
    """

    def copied(rank_count: int) -> Path:
        folder = shared_folder / f"ranks-{rank_count}"
        with alone(shared_folder / f"ranks-{rank_count}.lock"):
            if not (folder / "run.tracekit" / "manifest.json").exists():
                write_ranks(folder / "run", rank_count)
                make(folder)
        return shutil.copytree(folder / "run.tracekit", tmp_path / "run.tracekit")

    return copied
