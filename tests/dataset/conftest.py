"""Fixtures of datasets."""

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
    """Set a cache and a temporary folder for the test."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def a_batch_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put each small trace into its own batch."""
    read_apart(monkeypatch)


@pytest.fixture
def dataset_of(shared_folder: Path, tmp_path: Path) -> Callable[[int], Path]:
    """Return a function that copies the dataset of a run of some ranks, made once for all tests."""

    def copied(rank_count: int) -> Path:
        folder = shared_folder / f"ranks-{rank_count}"
        with alone(shared_folder / f"ranks-{rank_count}.lock"):
            if not (folder / "run.tracekit" / "manifest.json").exists():
                write_ranks(folder / "run", rank_count)
                make(folder)
        return shutil.copytree(folder / "run.tracekit", tmp_path / "run.tracekit")

    return copied
