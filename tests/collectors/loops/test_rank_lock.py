"""Of processes that say they are one rank, one is recorded, and the others are counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracekit.collectors.loop.rank_lock import RankClaim, rejected_count


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has rank 0 and does nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (tmp_path / "rank0.process").write_text(str(other.pid), "ascii")
        yield other
        other.kill()


def compute() -> None:
    """Compute for longer than the clock of processes takes to see it."""
    end_s = time.process_time() + 0.1
    while time.process_time() < end_s:
        pass


def test_the_first_of_two_is_recorded(tmp_path: Path, idle: subprocess.Popen[bytes]) -> None:
    claim = RankClaim(tmp_path, 0)
    assert not claim.take()
    assert not claim.take(), "nothing is known of what it does meanwhile"
    assert rejected_count(tmp_path, 0) == 1, "one process, however often it asks"
    assert RankClaim(tmp_path, 1).take(), "another rank is nobody's"
    idle.kill()
    idle.wait()
    assert claim.take(), "it has ended: a launcher starts the rank again"
    assert (tmp_path / "rank0.process").read_text("ascii") == str(os.getpid())
    assert claim.is_held
    assert claim.take(), "it is ours"
    assert rejected_count(tmp_path, 0) == 0


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("is_recorded", [False, True])
def test_one_that_idles_before_it_is_recorded(tmp_path: Path, *, is_recorded: bool) -> None:
    (tmp_path / "rank0.report.json").write_text(json.dumps({"is_recorded": is_recorded}), "utf-8")
    claim = RankClaim(tmp_path, 0)
    time.sleep(0.1)  # it starts up
    while not claim.take() and not is_recorded:
        compute()
    compute()
    assert claim.take() != is_recorded
    assert claim.is_held != is_recorded
    assert rejected_count(tmp_path, 0) == 1, "the one or the other"


def test_one_that_computes_keeps_its_rank(tmp_path: Path) -> None:
    endless = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(endless) as other:
        (tmp_path / "rank0.process").write_text(str(other.pid), "ascii")
        claim = RankClaim(tmp_path, 0)
        for _ in range(3):
            assert not claim.take()
            compute()
        other.kill()


def test_one_that_nobody_has_waited_for_has_ended(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.read()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        (tmp_path / "rank0.process").write_text(str(other.pid), "ascii")
        assert RankClaim(tmp_path, 0).take()


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    claim = RankClaim(tmp_path / "gone", 0)
    assert claim.take()
    assert claim.is_held
