"""`--launch "COMMAND"`: a server that is started for a run, and ended with all its children."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tracekit.errors import UsageError, WorkloadError

LOG_NAME = "server.log"
TRACE_FOLDER_FIELD = "{trace_dir}"
"""Stands in the command for the folder that traces are to be written to."""

_TERM_S = 15.0
_KILL_S = 5.0
_POLL_S = 0.05
_TAIL_BYTES = 4096
_TAIL_LINES = 3


class ServerProcess:
    """A server in a session of its own, so that it can be ended with whatever it has started.

    Args:
        command: the command line as for a shell, but run without one.
        log: where its output goes.
        trace_folder: what `{trace_dir}` in the command stands for.
        variables: added to the environment.

    Raises:
        UsageError: the command cannot be split into words.
        WorkloadError: it cannot be run.
    """

    def __init__(
        self, command: str, log: Path, trace_folder: Path, variables: Mapping[str, str]
    ) -> None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--launch cannot be split into words: {error}") from error
        if not words:
            raise UsageError("--launch is empty")
        words = [word.replace(TRACE_FOLDER_FIELD, str(trace_folder)) for word in words]
        self._log = log
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **variables},
                    start_new_session=True,
                )
        except OSError as error:
            raise WorkloadError(
                f"--launch: {words[0]} cannot be run: {error.strerror or error}"
            ) from error

    @property
    def exit_code(self) -> int | None:
        """What the server ended with; negative for a signal, None while it runs."""
        return self._process.poll()

    def last_words(self) -> str:
        """Return the last lines of its log, for an error message."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - _TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " | ".join(lines[-_TAIL_LINES:])

    def stop(self) -> None:
        """End the server and everything in its session; returns when they are gone.

        They are asked first and killed after 15 s.
        """
        for sign, patience_s in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, _KILL_S)):
            members = self._members()
            if not members:
                break
            for process_id in members:
                try:
                    os.kill(process_id, sign)
                except (ProcessLookupError, PermissionError):
                    continue
            deadline = time.monotonic() + patience_s
            while self._members() and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        self._process.poll()

    def _members(self) -> list[int]:
        """Return the processes of the server's session that still run."""
        leader = self._process.pid
        # Reaps the leader, which else would stay as a zombie.
        is_running = self._process.poll() is None
        proc = Path("/proc")
        if not (proc / "self" / "stat").exists():
            return [leader] if is_running else []
        members = []
        for entry in proc.iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                stat = (entry / "stat").read_text("utf-8", "replace")
            except OSError:
                continue
            # pid (name) state ppid pgrp session …; the name may hold spaces and brackets.
            state, _, _, session = stat.rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                members.append(int(entry.name))
        return members
