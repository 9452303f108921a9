"""One call of a tool, in a process of its own: `python -P -m tracekit.mcp.call`.

Its stdin is a line of JSON with the folders, the tool and its arguments; it stays open, and the
process ends when it closes, as its server has ended then. Its stdout is lines of JSON: how far the
reading of a trace is, and the answer. Whatever else is printed goes to stderr.
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

from tracekit.ingest.progress import Progress

_PROGRESS_S = 1.0


def main() -> None:
    """Answer the call."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_server, name="tracekit-server", daemon=True).start()
    told_s = time.monotonic()

    def tell(**members: object) -> None:
        out.write(json.dumps(members) + "\n")
        out.flush()

    def progress(state: Progress) -> None:
        nonlocal told_s
        if time.monotonic() - told_s > _PROGRESS_S:
            told_s = time.monotonic()
            tell(done=state.bytes_read, total=state.bytes_total)

    try:
        from tracekit.mcp.answers import Tools
        from tracekit.opening import tune_for_traces

        tune_for_traces()
        folders = [Path(folder) for folder in request["folders"]]
        text, is_error = Tools(folders, progress).call(request["tool"], request["arguments"])
    except Exception as error:  # noqa: BLE001 (the client is told, and stderr has the traceback)
        print_exc()
        text, is_error = f"error: a bug of tracekit: {type(error).__name__}", True
        if isinstance(error, MemoryError):
            text = "error: memory ran out\nnext: ask for fewer or shorter columns, or aggregate"
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
