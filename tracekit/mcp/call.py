"""Process of one tool call: `python -P -m tracekit.mcp.call`.

Stdin has one line of JSON with the folders, the tool, and its arguments. The process ends when
stdin closes, because the server has ended. Stdout has lines of JSON: progress every second, and the
answer. Other output goes to stderr.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from traceback import print_exc

from tracekit.errors import failed_on_given_store
from tracekit.ingest.trace_readers import Progress
from tracekit.units import MB

TICK_S = 1.0

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _SET_NO_NEW_PRIVS = 444, 445, 446, 38
_READ_FILE, _REFER = 1 << 2, 1 << 13
_SYSTEM = ("/usr", "/lib", "/lib64", "/proc", "/sys", "/dev", "/etc/localtime", "/etc/ld.so.cache")


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_server, name="tracekit-server", daemon=True).start()
    lock, answered, began_s = threading.Lock(), threading.Event(), time.monotonic()
    doing = "working"

    def send(**members: object) -> None:
        with lock:
            out.write(json.dumps(members) + "\n")
            out.flush()

    def progress(state: Progress) -> None:
        nonlocal doing
        doing = f"{state.bytes_read / MB:,.0f} of {state.bytes_total / MB:,.0f} MB read"

    def tick() -> None:
        # Report progress even if no trace is being read, because clients cancel silent calls.
        while not answered.wait(TICK_S):
            send(seconds=time.monotonic() - began_s, doing=doing)

    threading.Thread(target=tick, name="tracekit-progress", daemon=True).start()
    try:
        from tracekit.database.connections import SPILL_LIMIT
        from tracekit.mcp.answers import Tools
        from tracekit.opening import tune_for_traces

        os.environ.setdefault(SPILL_LIMIT, "1GB")
        tune_for_traces()
        folders = [Path(folder) for folder in request["folders"]]
        _keep_inside(folders)
        text, is_error = Tools(folders, progress).call(request["tool"], request["arguments"])
    except Exception as error:  # noqa: BLE001 (reported to the client; stderr has the traceback)
        print_exc()
        reason = failed_on_given_store(error) or f"bug in tracekit: {type(error).__name__}"
        text, is_error = f"error: {reason}", True
        if isinstance(error, MemoryError):
            text = "error: out of memory\nnext: ask for fewer or shorter columns, or aggregate"
    answered.set()
    send(text=text, is_error=is_error)
    # Exit without cleanup.
    sys.stderr.flush()
    os._exit(0)


def _end_with_server() -> None:
    while os.read(0, 1024):
        pass
    # If this process has its own group, also end child processes.
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _keep_inside(folders: Sequence[Path]) -> None:
    """Restrict this thread and its children to the folders, tracekit, and the system.

    The kernel enforces this (Landlock, Linux 5.19), because a user who can write to a folder could
    replace a file with a link after its name was checked. On older kernels, access is unrestricted.
    """
    from tracekit.analysis.catalog import QUERIES
    from tracekit.analysis.query_folders import config_folder, given_folders
    from tracekit.database.cache import cache_dir
    from tracekit.storage.temp_dirs import temporary_folder

    libc = ctypes.CDLL(None)
    if sys.platform != "linux" or libc.syscall(_CREATE_RULESET, None, 0, 1) < 2:
        return
    # Use a new folder, to hide other temporary files.
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary_folder())
    with contextlib.suppress(OSError):
        cache_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    own = [cache_dir(), tempfile.tempdir, config_folder(), *given_folders(())]
    # In an editable installation, Python's paths do not include this package and its SQL.
    own += [Path(__file__).parents[1], QUERIES]
    python = [sys.prefix, sys.base_prefix, *filter(os.path.isabs, sys.path)]
    rules = {str(place): _READ_FILE for place in (*folders, *own, *python, *_SYSTEM)}
    handled = ctypes.c_uint64(_READ_FILE | _REFER)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    for place, allowed in {"/": _REFER, **rules}.items():
        with contextlib.suppress(OSError):
            parent = os.open(place, os.O_PATH)
            rule = allowed.to_bytes(8, sys.byteorder) + parent.to_bytes(4, sys.byteorder)
            libc.syscall(_ADD_RULE, ruleset, 1, rule, 0)
            os.close(parent)
    libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


if __name__ == "__main__":
    main()
