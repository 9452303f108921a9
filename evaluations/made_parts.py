"""Generated parts of the manual's pages, between two marks."""

from __future__ import annotations


def marks(command: str) -> tuple[str, str]:
    """Return the marks before and after the part that a command writes."""
    return f"<!-- begin: {command} -->", f"<!-- end: {command} -->"


def filled(page: str, command: str, text: str) -> str:
    """Return the page with the given text between the marks of a command.

    Raises:
        ValueError: the page does not have the marks.
    """
    begin, end = marks(command)
    head, rest = page.split(begin)
    _, tail = rest.split(end)
    return f"{head}{begin}\n\n{text.strip()}\n\n{end}{tail}"


def part(page: str, command: str) -> str:
    """Return the text between the marks of a command."""
    begin, end = marks(command)
    return page.split(begin)[1].split(end, maxsplit=1)[0].strip()


def table(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
