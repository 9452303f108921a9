"""Memory of a rank: peak, limit, and recognition of out-of-memory errors."""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import WorkloadError

if TYPE_CHECKING:
    import torch

# Host allocators raise plain RuntimeErrors, and libraries wrap CUDA's messages. If memory ran out,
# the dynamic linker's message ends with "shared object"; otherwise, a reason follows.
_OUT_OF_MEMORY = re.compile(
    r"out of memory|DefaultCPUAllocator: can't allocate memory|std::bad_alloc"
    r"|failed to map segment from shared object$"
    r"|Cannot allocate memory|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED",
    re.IGNORECASE | re.MULTILINE,
)


def limit(size_bytes: int, device: torch.device) -> None:
    """Limit the memory of this process: on a CUDA device, or else its private writable memory."""
    if device.type == "cuda":
        import torch

        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, size_bytes / total), device)
        return
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (size_bytes, resource.RLIM_INFINITY))
    except (OSError, ValueError) as error:
        raise WorkloadError(f"--memory-limit is not supported here: {error}") from error


def reset_peak(device: torch.device) -> None:
    """Reset the memory peak, only for built-in workloads: other programs may read it, too."""
    if device.type != "cpu":
        _statistics(device, "reset_peak_memory_stats")
    # Only Linux can reset the peak of the resident set; elsewhere it covers the entire process.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "ascii")


def peak(device: torch.device) -> dict[str, int]:
    """Return the memory peak since `reset_peak`, as the members of `manifest.RankMemory`."""
    result = {"host_bytes": _host_peak_bytes()}
    if device.type != "cpu":
        for name, function in (
            ("device_allocated_bytes", "max_memory_allocated"),
            ("device_reserved_bytes", "max_memory_reserved"),
        ):
            figure = _statistics(device, function)
            if figure is not None:
                result[name] = figure
    return result


def _statistics(device: torch.device, function: str) -> int | None:
    import torch

    result = getattr(getattr(torch, device.type, None), function, None)
    return None if result is None else result(device)


def is_out_of_memory(error: BaseException) -> bool:
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, MemoryError):
            return True
        if isinstance(current, RuntimeError | OSError | ImportError) and _OUT_OF_MEMORY.search(
            str(current)
        ):
            return True
        current = current.__cause__ or current.__context__
    return False


def out_of_memory_reason(error: BaseException) -> str:
    for line in str(error).splitlines():
        match = _OUT_OF_MEMORY.search(line)
        if match:
            # "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't …"
            return re.sub(r"^\[enforce fail at [^\]]*\][^.]*\.\s*", "", line).strip()[:300]
    return str(error).strip().split("\n", 1)[0][:300] or "out of memory"


def kernel_kill_count() -> int:
    try:
        text = Path("/proc/vmstat").read_text("ascii")
    except OSError:
        return 0
    match = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
    return int(match[1]) if match else 0


def was_killed_for_memory(exit_code: int, kill_count_before: int) -> bool:
    """Return whether the kernel killed a process (negative exit code) for lack of memory."""
    return exit_code == -signal.SIGKILL and kernel_kill_count() > kill_count_before


def _host_peak_bytes() -> int:
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
    except OSError:
        status = ""
    match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    if match:
        return int(match[1]) * 1024
    peak_rss: Any = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak_rss) * (1 if sys.platform == "darwin" else 1024)
