"""Child processes of tracekit: all ranks, servers, and cells of a sweep.

A child has its own session. tracekit, or a guard process if tracekit is gone, ends it with all its
descendants. User programs run differently: see `program`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

from . import sessions
from .ending import describe_exit_code

OWN_PYTHON = (sys.executable, "-P")
"""Command of tracekit's Python that does not import modules from the user's current folder."""

_KILL_S = 5.0


class Child:
    """A process in its own session; `added` adds environment variables, and None removes one."""

    def __init__(
        self,
        command: Sequence[str],
        output: int | IO[bytes],
        *,
        errors: int | IO[bytes] = subprocess.STDOUT,
        added: Mapping[str, str | None] | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        variables: dict[str, str | None] = {**os.environ, **(added or {})}
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={name: value for name, value in variables.items() if value is not None},
            pass_fds=tuple(inherited),
            start_new_session=True,
        )
        self._guard: subprocess.Popen[bytes] | None = None
        try:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", sessions.__file__, str(self._process.pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (
            BaseException
        ):  # including an interrupt, after which nothing else would end the child
            end([self], sessions.TERM_S)
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code; negative for a signal, None while it runs."""
        return self._process.poll()

    @property
    def exit_description(self) -> str | None:
        code = self.exit_code
        return None if code is None else describe_exit_code(code)

    def wait(self, limit_s: float | None = None) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(limit_s)
        return None

    def release_guard(self) -> None:
        """Stop the guard, which first ends the rest of the session."""
        if self._guard is not None:
            self._guard.communicate()


def end(children: Sequence[Child], term_s: float) -> None:
    """End children and everything in their sessions, and wait for them.

    Processes are terminated, and killed after `term_s` (0: immediately) or at an interrupt.
    """
    leaders = [child.pid for child in children]

    def reap() -> None:
        # Without this wait, the leader would remain a zombie.
        for child in children:
            _ = child.exit_code

    try:
        sessions.end_sessions(leaders, term_s, _KILL_S, reap)
    except KeyboardInterrupt:
        # A second request ends the child immediately.
        sessions.end_sessions(leaders, 0, _KILL_S, reap)
        raise
    finally:
        reap()
        for child in children:
            child.release_guard()
