"""The machine: installed packages, and a correct GEMM."""

import os
import shutil
import subprocess
import sys
from importlib import metadata

import pytest
from devices import on_each_device, on_gpu

_PACKAGES = (
    *("accelerate", "bitsandbytes", "click", "deepspeed", "duckdb", "isal", "lightning"),
    *("msgspec", "nvtx", "nvidia-ml-py", "peft", "rich", "torch"),
    *("tracekit", "transformers", "triton"),
)
_SIZE = 1024


@on_each_device
def test_packages(trial):
    there = {item.name.lower().replace("_", "-"): item.version for item in metadata.distributions()}
    trial.figures(**{name: there.get(name.replace("_", "-")) for name in _PACKAGES})
    trial.figures(python=sys.version.split()[0])


@on_each_device
def test_a_product_is_right(trial):
    import torch

    trial.figures(
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
    left, right = (
        torch.randn(_SIZE, _SIZE, device=trial.device, dtype=torch.bfloat16) for _ in range(2)
    )
    exact = left.double() @ right.double()
    apart = float(((left @ right).double() - exact).abs().max() / exact.abs().max())
    trial.claim("a bf16 product is right", apart < 0.01, apart, "below 0.01")


@on_gpu
def test_clocks_and_driver(trial):
    if shutil.which("nvidia-smi") is None:
        pytest.skip("there is no nvidia-smi")
    query = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit"
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    trial.figures(nvidia_smi=done.stdout.strip() or done.stderr.strip())
