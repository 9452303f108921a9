"""What a command left behind, however it was run, and how to run one in this process."""

import contextlib
import io
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch


@dataclass(frozen=True, slots=True)
class CliResult:
    """What one run of the command left behind."""

    stdout: str
    stderr: str
    exit_code: int

    def json(self) -> Any:
        return json.loads(self.stdout)


def run_here(
    words: Sequence[str], environment: Mapping[str, str], folder: Path, stdin: str = ""
) -> CliResult:
    """Run a command of `tracekit` in this process, as it would run in one of its own.

    Args:
        words: those behind `tracekit`.
        environment: all variables that it finds.
        folder: where it runs.
        stdin: what it is given to read.
    """
    from tracekit.cli._main import main

    stdout, stderr = io.BytesIO(), io.BytesIO()
    given, out, err = (
        io.TextIOWrapper(content, encoding="utf-8", newline="")
        for content in (io.BytesIO(stdin.encode()), stdout, stderr)
    )
    # Without a logging configuration, warnings go to stderr; pytest has one.
    logger = logging.getLogger("tracekit")
    with (
        contextlib.ExitStack() as behind,
        patch.object(logger, "handlers", [logging.lastResort]),
        patch.dict(os.environ, environment, clear=True),
        patch("sys.stdin", given),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        # Reading a trace sets it for the process.
        behind.callback(sys.setswitchinterval, sys.getswitchinterval())
        exit_code = main(words)
        out.flush()
        err.flush()
    return CliResult(stdout.getvalue().decode(), stderr.getvalue().decode(), exit_code)
