"""Keeps a process from files outside some folders, by the kernel (Landlock, Linux 5.19).

Names are looked at before files are opened, and whoever can write a folder can put a link in place
of a file in between. The kernel asks where what is opened lies, so such a race leads nowhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tracekit.analysis.catalog import QUERIES
from tracekit.analysis.query_folders import config_folder, given_folders
from tracekit.database import cache_dir, temporary_folder

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _SET_NO_NEW_PRIVS = 444, 445, 446, 38
_READ_FILE, _REFER = 1 << 2, 1 << 13
_SYSTEM = ("/usr", "/lib", "/lib64", "/proc", "/sys", "/dev", "/etc/localtime", "/etc/ld.so.cache")


def keep_inside(folders: Sequence[Path]) -> None:
    """Let this thread and those that it starts read files below folders, and what Python needs.

    Where the kernel cannot, nothing happens.
    """
    libc = ctypes.CDLL(None)
    if sys.platform != "linux" or libc.syscall(_CREATE_RULESET, None, 0, 1) < 2:
        return
    # What others have in the temporary folder is none of this process's.
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary_folder())
    with contextlib.suppress(OSError):
        cache_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    own = [cache_dir(), tempfile.tempdir, config_folder(), *given_folders(())]
    # Of an editable installation no path of Python leads to this package and its SQL.
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
