"""Report of the machine and its installed packages."""

import os
import shutil
import sys
from importlib import metadata

from devices import on_each_device

_PACKAGES = (
    *("accelerate", "bitsandbytes", "click", "deepspeed", "duckdb", "isal", "lightning"),
    *("msgspec", "nvtx", "nvidia-ml-py", "peft", "rich", "torch"),
    *("tracekit", "transformers", "triton"),
)


@on_each_device
def test_packages(trial):
    import torch

    there = {item.name.lower().replace("_", "-"): item.version for item in metadata.distributions()}
    trial.figures(**{name: there.get(name.replace("_", "-")) for name in _PACKAGES})
    trial.figures(
        python=sys.version.split()[0],
        core_count=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        has_gcc=shutil.which("gcc") is not None,
        has_nvcc=shutil.which("nvcc") is not None,
        torch_cuda=torch.version.cuda,
    )
    if trial.is_cuda:
        trial.figures(
            device=torch.cuda.get_device_name(),
            device_memory_bytes=torch.cuda.get_device_properties(0).total_memory,
            capability=torch.cuda.get_device_capability(),
            nccl=torch.cuda.nccl.version(),
        )
