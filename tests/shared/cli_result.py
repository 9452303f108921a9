"""What a command left behind, however it was run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CliResult:
    """What one run of the command left behind."""

    stdout: str
    stderr: str
    exit_code: int

    def json(self) -> Any:
        return json.loads(self.stdout)
