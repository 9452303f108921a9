"""Run the command in this process, with one cache for all tests."""

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


@pytest.fixture(scope="session")
def kept(tmp_path_factory, keep_stores):
    """Return a function that caches the stores of samples, and returns the cache folder.

    Each worker has its own cache, because a replaced store may be open in another worker.
    """
    cache = tmp_path_factory.mktemp("checked")
    there = set()

    def keep(*samples):
        keep_stores(cache, *SAMPLES.intersection(samples) - there)
        there.update(samples)
        return cache

    return keep


@pytest.fixture
def tracekit_in_process(kept, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRACEKIT_CACHE_DIR", str(kept()))
    monkeypatch.chdir(tmp_path)

    def run(*args):
        kept(*args)
        exit_code = main([str(arg) for arg in args])
        return Outcome(exit_code, *capsys.readouterr())

    return run
