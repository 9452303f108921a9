"""Environment of a run: packages, processor, memory, and accelerators."""

from __future__ import annotations

import functools
import os
import platform
import socket
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from msgspec.structs import replace

from tracekit.errors import WorkloadError
from tracekit.manifest import Environment

from ..machine import hardware

_PACKAGES = (
    "accelerate",
    "bitsandbytes",
    "deepspeed",
    "flash-attn",
    "megatron-core",
    "numpy",
    "nvtx",
    "peft",
    "torch",
    "transformers",
    "triton",
    "vllm",
)
# Variables that affect the behavior of a run and contain no secrets.
_VARIABLES = (
    "CI_COMMIT_SHA",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_VISIBLE_DEVICES",
    "DS_ACCELERATOR",
    "GITHUB_SHA",
    "MKL_NUM_THREADS",
    "NCCL_P2P_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
)


def probe() -> Environment:
    """Return the environment, with devices only if torch is loaded."""
    result = Environment(
        host_name=socket.gethostname(),
        platform=hardware.platform_name(),
        python_version=platform.python_version(),
        processor=hardware.processor_name(),
        core_count=hardware.core_count(),
        memory_bytes=hardware.memory_bytes(),
        driver_version=hardware.driver_version(),
        packages=package_versions(),
        variables={name: os.environ[name] for name in _VARIABLES if name in os.environ},
    )
    torch = sys.modules.get("torch")
    if torch is not None:
        result.thread_count = torch.get_num_threads()
    if torch is not None and torch.cuda.is_available():
        count = torch.cuda.device_count()
        result.devices = [torch.cuda.get_device_name(index) for index in range(count)]
        result.device_memory_bytes = torch.cuda.get_device_properties(0).total_memory
    return result


def of_ranks(environments: Iterable[Mapping[str, Any]]) -> Environment:
    """Return the first rank's environment, with the thread count if all ranks have the same."""
    known = [environment for environment in environments if environment]
    if not known:
        return replace(probe(), thread_count=None)
    counts = {environment.get("thread_count") for environment in known}
    result = Environment(**known[0])
    result.thread_count = counts.pop() if len(counts) == 1 else None
    return result


@functools.cache
def package_versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def require(packages: dict[str, str], needed_by: str, extra: str = "collect") -> None:
    """Check that packages (import name to pip name) are installed, without importing them."""
    missing = [name for name in packages if not _is_installed(name)]
    if missing:
        listed = ", ".join(missing)
        verb = "is" if len(missing) == 1 else "are"
        raise WorkloadError(
            f"{needed_by} needs {listed}, which {verb} not installed",
            hint=f"pip install '.[{extra}]', or only: pip install "
            f"{' '.join(packages[name] for name in missing)}",
        )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:  # the parent package of a dotted name is missing
        return False
