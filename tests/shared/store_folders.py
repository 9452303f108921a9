"""What lies in folders of stores, and what is said where one is full."""

from __future__ import annotations

from pathlib import Path

FULL = "the disk is full; nothing was written"


def left_in(folder: Path) -> list[str]:
    """Return all that is below a folder, by name."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def stores(folder: Path) -> list[Path]:
    """Return what a cache holds."""
    return sorted(folder.glob("*"))
