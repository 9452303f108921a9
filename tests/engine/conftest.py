"""Fixtures of engines."""

import tempfile

import pytest
from run_of_ranks import read_apart


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
