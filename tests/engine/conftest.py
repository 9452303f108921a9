"""Fixtures of engines."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from run_of_ranks import read_apart


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
