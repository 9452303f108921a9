"""How a workload ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ended:
    """How a workload ended: the run folder that it left, if any, and the exit code for it."""

    folder: Path | None
    exit_code: int
