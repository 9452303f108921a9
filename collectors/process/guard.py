"""Ends a server that the process which started it can end no more.

    python -I server_guard.py SESSION

The collector starts this beside each server that it launches, and holds the other end of this
process's stdin: when that closes, however the collector ended, everything in the server's session
that is still there is asked to end, and then killed. It knows nothing of tracekit and takes nothing
from the current folder or the environment.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

TERM_S = 5.0
_POLL_S = 0.05


def session_members(session: int) -> list[int]:
    """Return the processes of a session that run; the leader alone where there is no `/proc`.

    Args:
        session: the process id of the session's leader.
    """
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        return [session] if _is_there(session) else []
    members = []
    for entry in proc.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            stat = (entry / "stat").read_text("utf-8", "replace")
        except OSError:
            continue
        # pid (name) state ppid pgrp session …; the name may hold spaces and brackets.
        state, _, _, of_session = stat.rpartition(")")[2].split()[:4]
        if int(of_session) == session and state not in "ZX":
            members.append(int(entry.name))
    return members


def end_session(
    session: int, term_s: float, kill_s: float, reap: Callable[[], object] = lambda: None
) -> None:
    """Ask every process of a session to end, kill what does not, and wait until they are gone.

    Args:
        session: the process id of the session's leader.
        term_s: how long they may take to end.
        kill_s: how long to wait for those that were killed.
        reap: called before each look at who is left.
    """
    for number, patience_s in ((signal.SIGTERM, term_s), (signal.SIGKILL, kill_s)):
        reap()
        members = session_members(session)
        for process_id in members:
            try:
                os.kill(process_id, number)
            except (ProcessLookupError, PermissionError):
                continue
        deadline = time.monotonic() + patience_s
        while members and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            reap()
            members = session_members(session)
        if not members:
            return


def _is_there(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _main(session: int) -> None:
    # What ends the collector must not end this before it has done its work.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    end_session(session, TERM_S, TERM_S)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
