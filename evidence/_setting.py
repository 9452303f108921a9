"""What an item is told: where it may write, what the host has, what it is to do."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Host:
    """What the machine has, as `_host.probe` found it.

    Attributes:
        has_cuda: whether torch can use a CUDA device.
        device: its name, or the processor's.
        device_memory_bytes: its memory, 0 without one.
        memory_bytes: the host's memory.
        core_count: cores that may be used.
        has_nvcc: whether CUDA code can be compiled.
        packages: versions of the packages that items ask for, by import name.
    """

    has_cuda: bool = False
    device: str = "unknown"
    device_memory_bytes: int = 0
    memory_bytes: int = 0
    core_count: int = 1
    has_nvcc: bool = False
    packages: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Setting:
    """What an item is told. Paths are text.

    Attributes:
        item: name of the item.
        arguments: what it is to do, as the plan says.
        is_dry: whether sizes are those of a trial on a CPU.
        runs: folder that takes its run folders.
        work: folder for what is not kept.
        record: file for what it finds.
        tracekit: the command `tracekit`.
        lightllm_python: Python of LightLLM's environment, None where it is not there.
        lightllm_source: folder that holds the package `lightllm`.
        host: what the machine has.
    """

    item: str
    arguments: dict[str, Any]
    is_dry: bool
    runs: str
    work: str
    record: str
    tracekit: list[str]
    lightllm_python: str | None
    lightllm_source: str | None
    host: Host

    @property
    def runs_folder(self) -> Path:
        """Return the folder that takes run folders."""
        return Path(self.runs)

    @property
    def work_folder(self) -> Path:
        """Return the folder for what is not kept."""
        return Path(self.work)

    def write(self, path: Path) -> None:
        """Write it for the item's process."""
        path.write_text(json.dumps(asdict(self), indent=1), "utf-8")

    @staticmethod
    def read(path: Path) -> Setting:
        """Read what `write` wrote."""
        values = json.loads(path.read_text("utf-8"))
        return Setting(**{**values, "host": Host(**values["host"])})
