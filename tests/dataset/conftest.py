"""Fixtures of datasets."""

import shutil
import tempfile

import pytest
from alone import alone
from made_datasets import make
from run_of_ranks import read_apart, write_ranks


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """Set a cache and a temporary folder for the test."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.fixture
def a_batch_each(monkeypatch):
    """Put each small trace into its own batch."""
    read_apart(monkeypatch)


@pytest.fixture
def dataset_of(shared_folder, tmp_path):
    """Return a function that copies the dataset of a run of some ranks, made once for all tests."""

    def copied(rank_count):
        folder = shared_folder / f"ranks-{rank_count}"
        with alone(shared_folder / f"ranks-{rank_count}.lock"):
            if not (folder / "run.tracekit" / "manifest.json").exists():
                write_ranks(folder / "run", rank_count)
                make(folder)
        return shutil.copytree(folder / "run.tracekit", tmp_path / "run.tracekit")

    return copied
