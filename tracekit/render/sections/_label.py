"""What a device is called on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracekit.render._text import printable, shorten

_MAX_DEVICE = 12


def device_label(row: Mapping[str, Any]) -> str:
    """Return a label for the rank and device of a row; an unknown rank is said, not guessed."""
    rank = row.get("rank")
    device = shorten(printable(str(row.get("device"))), _MAX_DEVICE)
    where = device if device == "cpu" else f"device {device}"
    return f"{'rank ?' if rank is None else f'rank {rank}'} · {where}"
