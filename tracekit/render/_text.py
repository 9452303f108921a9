r"""Make text from a trace safe to show.

Names, paths and arguments in a trace are untrusted: they may hold escape sequences that rewrite the
terminal, bidirectional controls that reorder a line, or newlines that break a table. Every such
character is shown as its escape (`\x1b`, `\u202e`); nothing is dropped.
"""

from __future__ import annotations

import unicodedata

ELLIPSIS = "…"

# Controls, formats (bidirectional marks, zero-width and tag characters), surrogates, line and
# paragraph separators.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Stacked accents take no width: without a limit one cell could cover the screen.
_MAX_COMBINING = 4


def is_unsafe(character: str) -> bool:
    """Return whether a character could change how the text around it is shown."""
    return unicodedata.category(character) in _UNSAFE_CATEGORIES


def escape(character: str) -> str:
    """Return the visible escape of a character, as Python writes it."""
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def printable(text: str, keep: str = "") -> str:
    """Return the text with every unsafe character shown as an escape.

    Args:
        text: anything from a trace.
        keep: characters that stay although they are controls, for example a newline inside a CSV
            cell.
    """
    if text.isascii() and text.isprintable():
        return text
    shown = []
    combining = 0
    for character in text:
        combining = combining + 1 if unicodedata.combining(character) else 0
        if combining > _MAX_COMBINING or (character not in keep and is_unsafe(character)):
            shown.append(escape(character))
        else:
            shown.append(character)
    return "".join(shown)


def cell_width(text: str) -> int:
    """Return how many terminal cells a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shorten(text: str, width: int) -> str:
    """Return the text in at most `width` cells, `…` for what is cut off at its right end."""
    if cell_width(text) <= width:
        return text
    if width < 1:
        return ""
    kept, used = [], 0
    for character in text:
        used += cell_width(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return the text shortened or padded to exactly `width` cells, set to the right if asked."""
    short = shorten(text, width)
    padding = " " * (width - cell_width(short))
    return padding + short if right else short + padding
