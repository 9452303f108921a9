"""How a section begins, and how it says that there is more."""

from __future__ import annotations

from rich.text import Text


def heading(title: str, note: str = "") -> Text:
    """Return the first line of a section: its title, and a dim note."""
    line = Text()
    line.append(title, style="bold")
    if note:
        line.append(f"  {note}", style="dim")
    return line


def more(count: int, one: str, many: str) -> list[Text]:
    """Return the line that says how many rows are not shown, or nothing."""
    if count <= 0:
        return []
    return [Text(f"  … {count:,} more {one if count == 1 else many} (--full)", style="dim")]
