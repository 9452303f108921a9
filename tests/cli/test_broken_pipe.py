"""A reader that has seen enough, as `head` has, is no error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize("format_name", ["table", "json", "csv", "markdown"])
@pytest.mark.parametrize("command", ["breakdown", "health"])
@pytest.mark.nightly("starts a process for each format")
def test_the_command_ends_quietly(
    command: str,
    format_name: str,
    sample_trace: Path,
    tmp_path: Path,
    keep_stores: Callable[..., None],
) -> None:
    keep_stores(tmp_path, sample_trace)
    read_end, write_end = os.pipe()
    os.close(read_end)  # Every write fails, from the first on.
    done = subprocess.run(
        [sys.executable, "-m", "tracekit", command, str(sample_trace), "--format", format_name],
        stdout=write_end,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "TRACEKIT_CACHE_DIR": str(tmp_path)},
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")
