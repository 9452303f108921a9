"""What the tests of engines and datasets share."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from run_of_ranks import read_apart


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
