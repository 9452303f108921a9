"""Fixtures of datasets."""

import shutil

import pytest
from alone import alone
from made_datasets import make
from run_of_ranks import a_batch_each, places, write_ranks  # noqa: F401


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
