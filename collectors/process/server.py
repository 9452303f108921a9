"""`--launch "COMMAND"`: a server that is started for a run, and ended with all its children.

What it writes is kept without secrets: until its end it is in a file without a name, which is gone
with this process. So is the server, whatever ends this process: a guard sees to that.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tracekit.errors import UsageError, WorkloadError
from tracekit.redaction import Redactor

from .child import Child, end
from .ending import last_lines

LOG_NAME = "server.log"
TRACE_FOLDER_FIELD = "{trace_dir}"
"""Stands in the command for the folder that traces are to be written to."""

_TERM_S = 15.0
_TAIL_BYTES = 4096


class ServerProcess(Child):
    """A server in a session of its own, so that it can be ended with whatever it has started.

    Raises:
        UsageError: the command cannot be split into words.
        WorkloadError: it cannot be run.
    """

    def __init__(
        self,
        command: str,
        log: Path,
        trace_folder: Path,
        variables: Mapping[str, str],
        redactor: Redactor,
    ) -> None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--launch cannot be split into words: {error}") from error
        if not words:
            raise UsageError("--launch is empty")
        words = [word.replace(TRACE_FOLDER_FIELD, str(trace_folder)) for word in words]
        self._log = log
        self._redactor = redactor
        self._output: IO[bytes] = tempfile.TemporaryFile(  # noqa: SIM115 - open until the server has ended
            dir=log.parent
        )
        try:
            super().__init__(words, self._output, added=variables)
        except (OSError, ValueError) as error:
            self._output.close()
            reason = getattr(error, "strerror", None) or error
            raise WorkloadError(f"--launch: {words[0]} cannot be run: {reason}") from error

    def log_tail(self) -> str:
        """Return the last lines of its log, for an error message."""
        size = os.fstat(self._output.fileno()).st_size
        # More than is shown: a secret may begin before.
        begin = max(0, size - _TAIL_BYTES - self._redactor.longest_bytes)
        data = self._redactor.clean_bytes(os.pread(self._output.fileno(), size - begin, begin))
        return last_lines(data[-_TAIL_BYTES:].decode("utf-8", "replace"))

    def stop(self) -> None:
        """End the server and everything in its session, and keep its log; returns when done.

        They are asked first and killed after 15 s.
        """
        end([self], _TERM_S)
        with self._output, self._log.open("wb") as log:
            self._output.seek(0)
            self._redactor.copy(self._output, log)
