"""The command that starts a stand-in server on a port of ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from processes import free_port

STAND_IN = Path(__file__).with_name("_stand_in.py")


def stand_in_command(
    folder: Path, engine: str = "lightllm", **quirks: Any
) -> tuple[list[str], str]:
    """Return the command, and the URL; the server writes its port into the folder."""
    port = free_port()
    words = [sys.executable, str(STAND_IN), engine, str(folder / "port")]
    return [*words, json.dumps({"port": port, **quirks})], f"http://127.0.0.1:{port}"
