"""How a section begins, and how it says that there is more."""

from __future__ import annotations

from rich.text import Text

from tracekit.render._text import shorten


def heading(title: str, note: str = "", width: int = 0) -> Text:
    """Return the first line of a section: its title, and a dim note cut to the width."""
    line = Text()
    line.append(title, style="bold")
    if note:
        line.append("  " + shorten(note, width - len(title) - 2), style="dim")
    return line


def more(count: int, one: str, many: str) -> list[Text]:
    """Return the line that says how many rows are not shown, or nothing."""
    if count <= 0:
        return []
    return [Text(f"  … {count:,} more {one if count == 1 else many} (--full)", style="dim")]
