"""Run the command in this process, with one cache for all tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tracekit.cli._main import main


@dataclass(frozen=True, slots=True)
class Outcome:
    exit_code: int
    stdout: str
    stderr: str


SAMPLES = frozenset((Path(__file__).resolve().parents[2] / "sample_traces").iterdir())


@pytest.fixture
def tracekit_in_process(
    shared_folder: Path,
    keep_stores: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Outcome]:
    """Return a function that runs a command, and says how it ended."""
    cache = shared_folder / "checked"
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(cache))
    monkeypatch.chdir(tmp_path)

    def run(*args: str | Path) -> Outcome:
        keep_stores(cache, *SAMPLES.intersection(args))
        exit_code = main([str(arg) for arg in args])
        return Outcome(exit_code, *capsys.readouterr())

    return run
