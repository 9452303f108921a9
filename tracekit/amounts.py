"""What a JSON file says of amounts: none of them is below zero, or no number at all."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

SIGNED = ("seed", "exit_code", "final_loss", "window_start_ns", "window_end_ns", "lost_ns")
"""Members that are no amounts: they may be below zero, and a loss that diverged is no number."""


def check_amounts(value: Any, where: str) -> None:
    """Check the numbers of a dataclass that was made of JSON: counts, sizes, times and rates.

    Numbers in a dict (what a framework states of itself) are its own.

    Raises:
        ValueError: one is negative, NaN or infinite.
    """
    if dataclasses.is_dataclass(value):
        for item in dataclasses.fields(value):
            if item.name not in SIGNED:
                check_amounts(getattr(value, item.name), f"{where}: {item.name}")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            check_amounts(item, f"{where}[{position}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}, not a number")
    elif isinstance(value, int | float) and value < 0:
        raise ValueError(f"{where} is {value}, below zero")
