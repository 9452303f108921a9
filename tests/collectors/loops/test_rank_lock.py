"""Of processes that say they are one rank, one is recorded, and the others are counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tracekit.collectors.loop.rank_lock import claim, rejected_count


def test_the_first_of_two_is_recorded(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (tmp_path / "rank0.process").write_text(str(other.pid), "ascii")
        assert not claim(tmp_path, 0)
        assert not claim(tmp_path, 0)
        assert rejected_count(tmp_path, 0) == 1, "one process, however often it asks"
        assert claim(tmp_path, 1), "another rank is nobody's"
        other.communicate(b"\n")
    assert claim(tmp_path, 0), "it has ended: a launcher starts the rank again"
    assert (tmp_path / "rank0.process").read_text("ascii") == str(os.getpid())
    assert claim(tmp_path, 0), "it is ours"


def test_one_that_nobody_has_waited_for_has_ended(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.read()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        (tmp_path / "rank0.process").write_text(str(other.pid), "ascii")
        assert claim(tmp_path, 0)


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    assert claim(tmp_path / "gone", 0)
