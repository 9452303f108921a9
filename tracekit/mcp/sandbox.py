"""Keeps a process from files outside of some folders, by the kernel (Landlock, Linux 5.19).

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

from tracekit.analysis.query_folders import config_folder, given_folders
from tracekit.database import cache_dir, temporary_folder

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _REFER = 1 << 2, 1 << 13
_SET_NO_NEW_PRIVS = 38

_SYSTEM = ("/usr", "/lib", "/lib64", "/proc", "/sys", "/dev", "/etc/localtime", "/etc/ld.so.cache")


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def keep_inside(folders: Sequence[Path]) -> bool:
    """Let this thread and those that it starts read files below folders, and what Python needs.

    Returns:
        Whether the kernel does so.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform != "linux" or libc.syscall(_CREATE_RULESET, None, 0, 1) < 2:
        return False
    # What others have in the temporary folder is none of this process's.
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary_folder())
    python = (sys.prefix, sys.base_prefix, *filter(os.path.isabs, sys.path))
    own = (cache_dir(), tempfile.tempdir)
    queries = (config_folder(), *given_folders(()))
    handled = ctypes.c_uint64(_READ_FILE | _REFER)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    with contextlib.suppress(OSError):
        cache_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    readable = [str(one) for one in (*folders, *python, *own, *queries, *_SYSTEM)]
    for place, allowed in [*((one, _READ_FILE) for one in readable), ("/", _REFER)]:
        with contextlib.suppress(OSError):
            parent = os.open(place, os.O_PATH | os.O_CLOEXEC)
            libc.syscall(_ADD_RULE, ruleset, 1, ctypes.byref(_Rule(allowed, parent)), 0)
            os.close(parent)
    libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    is_kept = bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    os.close(ruleset)
    return is_kept
