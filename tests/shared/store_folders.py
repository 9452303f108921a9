"""Contents of folders with stores."""

from pathlib import Path


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def stores(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))
