"""Threads of gloo's are let rest before a profile ends."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

gloo_threads = pytest.importorskip("tracekit.collectors.process.gloo_threads")


def task(tasks: Path, number: int, name: str, state: str) -> None:
    folder = tasks / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{number} ({name}) {state} 1 {number} 0 -1 0\n")


def test_which_threads_are_at_work(tmp_path: Path) -> None:
    task(tmp_path, 1, "python", "R")
    task(tmp_path, 2, "odd) R (name", "R")
    assert gloo_threads.states(tmp_path) == []
    task(tmp_path, 3, "pt_gloo_runloop", "S")
    (tmp_path / "4").mkdir()  # has just ended
    assert gloo_threads.states(tmp_path) == ["S"]
    task(tmp_path, 5, "pt_gloo_runloop", "R")
    assert sorted(gloo_threads.states(tmp_path)) == ["R", "S"]
    assert gloo_threads.states(tmp_path / "none") == []


def test_it_waits_for_them_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch.distributed")
    monkeypatch.setattr(gloo_threads, "_TASKS", tmp_path)
    naps: list[float] = []

    def nap(duration_s: float) -> None:
        naps.append(duration_s)
        if len(naps) == 3:
            task(tmp_path, 1, "pt_gloo_runloop", "S")

    monkeypatch.setattr(time, "sleep", nap)
    gloo_threads.wait_until_idle()
    assert naps == []  # none is there
    task(tmp_path, 1, "pt_gloo_runloop", "R")
    gloo_threads.wait_until_idle(limit_s=60)
    assert len(naps) == 4  # at work, at work, at rest twice
    task(tmp_path, 1, "pt_gloo_runloop", "R")
    gloo_threads.wait_until_idle(limit_s=0)
    assert len(naps) == 4


def test_a_worker_lets_them_rest_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    distributed = pytest.importorskip("tracekit.collectors.process.distributed")
    found: list[bool] = []
    monkeypatch.setattr(
        gloo_threads, "wait_until_idle", lambda: found.append(torch.distributed.is_initialized())
    )
    place = distributed.Place(0, 0, 1)
    with distributed.process_group(place, torch.device("cpu"), tmp_path / "store"):
        assert torch.distributed.is_initialized()
        assert found == []
    assert found == [False]
