"""The machine: its packages, and whether it computes a product right."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import metadata

from evidence._records import Record
from evidence._setting import Setting

_PACKAGES = (
    *("accelerate", "bitsandbytes", "click", "deepspeed", "duckdb", "isal", "lightning"),
    *("msgspec", "nvtx", "nvidia-ml-py", "peft", "prompt_toolkit", "rich", "torch"),
    *("tracekit", "transformers", "triton"),
)
_SIZE = 1024


def run(setting: Setting, record: Record) -> None:
    """Note what is there."""
    with record.case("packages") as case:
        for name in _PACKAGES:
            try:
                case.figure(**{name: metadata.version(name)})
            except metadata.PackageNotFoundError:
                case.figure(**{name: None})
        case.figure(python=sys.version.split()[0])
        # The compiled parser of events; without it everything works, and slower.
        from tracekit.ingest.event_collector import compiled_columns

        case.claim("events are parsed by compiled code", compiled_columns() is not None)
    with record.case("device") as case:
        import torch

        device = "cuda" if setting.host.has_cuda else "cpu"
        case.figure(
            device=setting.host.device,
            device_memory_bytes=setting.host.device_memory_bytes,
            core_count=setting.host.core_count,
            memory_bytes=setting.host.memory_bytes,
            has_nvcc=setting.host.has_nvcc,
            has_gcc=shutil.which("gcc") is not None,
            torch_cuda=torch.version.cuda,
        )
        if setting.host.has_cuda:
            case.figure(
                nccl=list(torch.cuda.nccl.version()),
                capability=list(torch.cuda.get_device_capability()),
            )
        left = torch.randn(_SIZE, _SIZE, device=device, dtype=torch.bfloat16)
        right = torch.randn(_SIZE, _SIZE, device=device, dtype=torch.bfloat16)
        exact = left.double() @ right.double()
        apart = ((left @ right).double() - exact).abs().max() / exact.abs().max()
        case.claim("a bf16 product is right", apart.item() < 0.01, apart.item(), "below 0.01")
    with record.case("nvidia-smi") as case:
        if not setting.host.has_cuda:
            return
        query = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit"
        case.figure(query=query, answer=_said("nvidia-smi", f"--query-gpu={query}", "--format=csv"))


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=30, check=False)
    return done.stdout.strip() or done.stderr.strip()
