"""What lies in folders of stores, and what is said where one is full."""

from __future__ import annotations

from pathlib import Path

FULL = "the disk is full; nothing was written"


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def stores(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))
