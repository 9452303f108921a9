"""The result of a command, and a function that runs commands in this process."""

import contextlib
import io
import json
import logging
import os
import sys
from dataclasses import dataclass
from unittest.mock import patch


@dataclass(frozen=True, slots=True)
class CliResult:
    """Exit code and output of a command."""

    stdout: str
    stderr: str
    exit_code: int

    def json(self):
        return json.loads(self.stdout)


def run_here(words, environment, folder, stdin=""):
    """Run a `tracekit` command in this process as if in a separate process.

    Args:
        words: arguments after `tracekit`.
        environment: all environment variables.
        folder: working folder.
        stdin: text on stdin.
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
