"""Lists the processes of a session, and ends them.

    python -I sessions.py SESSION

As a script, this module guards a session. Module `child` starts the guard with every process that
could outlive tracekit. When tracekit ends for any reason, the guard's stdin closes, and the guard
terminates and then kills the remaining processes of the session. The script imports neither
tracekit nor anything from the current folder or the environment.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

TERM_S = 5.0
_POLL_S = 0.05
_PROC = Path("/proc")


def is_alive(process_id: int) -> bool:
    """Return whether a process (or a group, if negative) exists, possibly as a zombie."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def read_stat(path: Path) -> tuple[str, list[str]] | None:
    """Return the name of a process or thread, and the fields that follow it: see proc(5)."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return None
    # The name is in parentheses, and may contain spaces and parentheses.
    before, bracket, behind = text.rpartition(")")
    return (before.partition("(")[2], behind.split()) if bracket else None


def session_members(sessions: Sequence[int]) -> list[int]:
    """Return the processes of sessions; without `/proc`, their leaders' negative group ids."""
    if not (_PROC / "self" / "stat").exists():
        return [-session for session in sessions if is_alive(-session)]
    members = []
    for entry in _PROC.iterdir():
        stat = read_stat(entry / "stat") if entry.name.isdecimal() else None
        if stat is None:
            continue
        state, _, _, of_session = stat[1][:4]
        if int(of_session) in sessions and state not in "ZX":
            members.append(int(entry.name))
    return members


def end_sessions(
    sessions: Sequence[int], term_s: float, kill_s: float, reap: Callable[[], object] = lambda: None
) -> None:
    """Terminate all processes of sessions, kill the rest, and wait until they are gone.

    Processes have `term_s` to end; 0 kills them immediately. `reap` is called before each check.
    """
    for number, patience_s in ((signal.SIGTERM, term_s), (signal.SIGKILL, kill_s)):
        if not patience_s:
            continue
        reap()
        members = session_members(sessions)
        for process_id in members:
            try:
                os.kill(process_id, number)
            except (ProcessLookupError, PermissionError):
                continue
        deadline = time.monotonic() + patience_s
        while members and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            reap()
            members = session_members(sessions)
        if not members:
            return


def _guard(session: int) -> None:
    # A signal that ends the collector must not end the guard before the session.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    end_sessions([session], TERM_S, TERM_S)


if __name__ == "__main__":
    _guard(int(sys.argv[1]))
