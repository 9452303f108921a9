"""One call of a tool, in a process of its own: `python -P -m tracekit.mcp.call`.

Its stdin is a line of JSON with the folders, the tool and its arguments; it stays open, and the
process ends when it closes, as its server has ended then. Its stdout is lines of JSON: every
second what it is doing, and the answer. Whatever else is printed goes to stderr.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from traceback import print_exc

from tracekit.errors import failed_on_given_store
from tracekit.ingest.progress import Progress
from tracekit.units import MB

TICK_S = 1.0


def main() -> None:
    """Answer the call."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_server, name="tracekit-server", daemon=True).start()
    lock, answered, began_s = threading.Lock(), threading.Event(), time.monotonic()
    doing = "working"

    def tell(**members: object) -> None:
        with lock:
            out.write(json.dumps(members) + "\n")
            out.flush()

    def progress(state: Progress) -> None:
        nonlocal doing
        doing = f"{state.bytes_read / MB:,.0f} of {state.bytes_total / MB:,.0f} MB read"

    def tick() -> None:
        # Also where nothing is read: clients give up on what says nothing.
        while not answered.wait(TICK_S):
            tell(seconds=time.monotonic() - began_s, doing=doing)

    threading.Thread(target=tick, name="tracekit-progress", daemon=True).start()
    try:
        from tracekit.database import SPILL_LIMIT
        from tracekit.mcp.answers import Tools
        from tracekit.mcp.sandbox import keep_inside
        from tracekit.opening import tune_for_traces

        os.environ.setdefault(SPILL_LIMIT, "1GB")
        tune_for_traces()
        folders = [Path(folder) for folder in request["folders"]]
        keep_inside(folders)
        text, is_error = Tools(folders, progress).call(request["tool"], request["arguments"])
    except Exception as error:  # noqa: BLE001 (the client is told, and stderr has the traceback)
        print_exc()
        reason = failed_on_given_store(error) or f"bug in tracekit: {type(error).__name__}"
        text, is_error = f"error: {reason}", True
        if isinstance(error, MemoryError):
            text = "error: out of memory\nnext: ask for fewer or shorter columns, or aggregate"
    answered.set()
    tell(text=text, is_error=is_error)
    # Nothing that is held is taken down piece by piece.
    sys.stderr.flush()
    os._exit(0)


def _end_with_server() -> None:
    while os.read(0, 1024):
        pass
    # With what it has started, if its group is its own.
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
