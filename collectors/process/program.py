"""Runs a program like a shell, and returns its exit code.

The program shares tracekit's session, process group, terminal, open files, and standard streams.
Signals sent to tracekit are forwarded. Signals to the process group (Ctrl-C, `kill -TERM -GROUP`, a
launcher that ends its ranks) are not, because the program already got them. tracekit never kills
the program or processes that the program leaves running.

To detect signals to the group, a child process in the group blocks these signals. A signal that is
pending in the child was sent to the entire group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tracekit.errors import UsageError

_POLL_S = 0.1
_SPREAD_S = 0.01
"""Maximum time for a signal to reach all processes of a group."""

_NAMES = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH")
FORWARDED = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
_WAITED_FOR = {*FORWARDED, signal.SIGCHLD}
# Signals that are never forwarded, because the terminal and shells send them to the entire group.
_GROUP_ONLY = {"SIGCONT", "SIGWINCH"}


def run_program(
    program: Sequence[str],
    environment: Mapping[str, str],
    look: Callable[[], None],
    taken: Callable[[int], bool],
) -> int:
    """Run a program to its end, and return its exit code: -n for signal n.

    `look` is called about ten times per second; `taken` returns whether a signal is for tracekit.
    """
    before = {*signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)}
    witness = _Witness()
    try:
        process = _start(program, environment, before)
        while process.poll() is None:
            number = _next_signal(_POLL_S)
            if number is None or number == signal.SIGCHLD:
                look()
            elif not taken(number) and not witness.has_seen(number):
                _send(process, number)
        code = process.wait()
    finally:
        witness.end()
        # Discard signals after the program's end, because they would end tracekit when unblocked.
        while _next_signal(0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return code


def _next_signal(limit_s: float) -> int | None:
    if hasattr(signal, "sigtimedwait"):
        result = signal.sigtimedwait(_WAITED_FOR, limit_s)
        return None if result is None else result.si_signo
    if not signal.sigpending() & _WAITED_FOR:
        time.sleep(limit_s)
    pending = signal.sigpending() & _WAITED_FOR
    return signal.sigwait(pending) if pending else None


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        process.send_signal(number)


def _start(
    program: Sequence[str], environment: Mapping[str, str], mask: set[int | signal.Signals]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(program),
            env=dict(environment),
            close_fds=False,  # the program shares tracekit's open files
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),  # noqa: PLW1509
        )
    except OSError as error:
        raise UsageError(f"cannot start {program[0]}: {error.strerror}") from error


class _Witness:
    """A child process in the program's group that keeps signals pending."""

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._answer, answered = os.pipe()
        # Forking is safe: tracekit has only one thread here, and the child calls only safe
        # functions.
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _close_others({asked, answered})
                # The pipe closes when tracekit ends for any reason, which ends this process.
                while number := os.read(asked, 1):
                    pending = signal.sigpending() & {*number}
                    if pending:
                        signal.sigwait(pending)
                    os.write(answered, bytes([bool(pending)]))
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answered)

    def has_seen(self, number: int) -> bool:
        if signal.Signals(number).name in _GROUP_ONLY:
            return True
        time.sleep(_SPREAD_S)
        try:
            os.write(self._ask, bytes([number]))
            return os.read(self._answer, 1) == b"\x01"
        except OSError:  # the witness was killed
            return False

    def end(self) -> None:
        os.close(self._ask)
        os.close(self._answer)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _close_others(inherited: set[int]) -> None:
    """Close all other files, so that readers of inherited pipes do not wait for this process."""
    for path in list(Path("/dev/fd").iterdir()):
        if int(path.name) not in inherited:
            with contextlib.suppress(OSError):
                os.close(int(path.name))
