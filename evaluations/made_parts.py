"""Parts of the manual's pages that a command writes, between two marks; all else is by hand."""

from __future__ import annotations


def marks(command: str) -> tuple[str, str]:
    """Return what stands before and after the part that a command writes."""
    return f"<!-- begin: {command} -->", f"<!-- end: {command} -->"


def filled(page: str, command: str, made: str) -> str:
    """Return the page with this text between the command's marks.

    Raises:
        ValueError: it has no such marks.
    """
    begin, end = marks(command)
    head, rest = page.split(begin)
    _, tail = rest.split(end)
    return f"{head}{begin}\n\n{made.strip()}\n\n{end}{tail}"


def part(page: str, command: str) -> str:
    """Return what the command wrote there."""
    begin, end = marks(command)
    return page.split(begin)[1].split(end, maxsplit=1)[0].strip()


def table(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
