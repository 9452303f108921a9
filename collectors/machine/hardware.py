"""Hardware of the machine, queried from the system without torch."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from pathlib import Path


def accelerator_count() -> int:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    # CUDA_SUCCESS is 0; the driver itself honors CUDA_VISIBLE_DEVICES.
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


@functools.cache
def processor_name() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    # `platform.processor` would start a process, possibly inside a training program.
    return platform.machine() or None


@functools.cache
def platform_name() -> str:
    if sys.platform != "linux":
        return platform.platform()
    here = os.uname()
    libc = "".join(platform.libc_ver())
    return f"{here.sysname}-{here.release}-{here.machine}" + (f"-with-{libc}" if libc else "")


def driver_version() -> str | None:
    try:
        return Path("/sys/module/nvidia/version").read_text("utf-8").strip()
    except OSError:
        return None
