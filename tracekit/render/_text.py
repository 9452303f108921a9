r"""Makes text from a trace safe to display.

Names, paths, and arguments in a trace are untrusted: they may contain escape sequences that rewrite
the terminal, bidirectional controls that reorder a line, or newlines that break a table. Such
characters are shown as escapes (`\x1b`, `\u202e`), not dropped.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

ELLIPSIS = "…"

# Controls, formats (bidirectional marks, zero-width and tag characters), surrogates, line and
# paragraph separators.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Variation selectors that emojis do not use. They are invisible, and can hide text that AI
# assistants read.
_UNSEEN = frozenset(map(chr, range(0xE0100, 0xE01F0)))
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Starts with the preceding ASCII character, whose width a combining character may change.
_NOT_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
# Combining characters have no width, so without a limit, one cell could cover the screen.
_MAX_COMBINING = 4

_MIN_OWN = 30
"""Minimum number of characters shown after the common prefix of names."""

_COMMON = re.compile(r"^void |at::native::|\(anonymous namespace\)::")
"""Common parts of kernel names, which are removed from long names."""

_WORD_END = re.compile(r"[\w.]*$")


def is_unsafe(character: str) -> bool:
    """Return whether a character could change the display of text around it."""
    return unicodedata.category(character) in _UNSAFE_CATEGORIES or character in _UNSEEN


def escape(character: str) -> str:
    """Return the escape of a character in Python notation."""
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def printable(text: str, keep: str = "") -> str:
    """Return the text with every unsafe character shown as an escape.

    Args:
        text: untrusted text.
        keep: control characters that are not escaped, such as a newline in a CSV cell.
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
    """Return the width of text in terminal cells: 2 per wide character, 0 per combining one."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    # Measuring characters is slow, so only non-ASCII ones are measured.
    others = "".join(_NOT_ASCII.findall(text))
    return len(text) - len(others) + cell_len(others)


def truncate(text: str, width: int) -> str:
    """Return the text in at most `width` cells, truncated at its right end with `…`."""
    if cell_width(text) <= width:
        return text
    if width < 1:
        return ""
    if text.isascii():
        return text[: width - 1] + ELLIPSIS
    characters, used = [], 0
    for character in text:
        used += cell_width(character)
        if used > width - 1:
            break
        characters.append(character)
    return "".join(characters) + ELLIPSIS


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return the text truncated or padded to `width` cells, right-aligned if `right` is set."""
    short = truncate(text, width)
    # str.ljust counts characters instead of cells.
    room = width - cell_width(short) + len(short)
    return short.rjust(room) if right else short.ljust(room)


def truncate_middle(text: str, width: int) -> str:
    """Return the text in at most `width` cells, with its middle replaced by `…`."""
    if cell_width(text) <= width:
        return text
    head = max(width - 1, 0) * 2 // 5
    end = truncate(text[: -width - 2 : -1], width - head)[::-1]
    return truncate(text, head + 1)[:-1] + end


def truncate_names(names: Sequence[str], width: int) -> list[str]:
    """Return names in at most `width` cells each, in the same order.

    In long names, common namespaces of PyTorch kernels are removed, and then the middle of the
    name. If names would look equal, the middle of their common prefix is removed instead.
    """
    names = [name if cell_width(name) <= width else _COMMON.sub("", name) for name in names]
    short = [truncate_middle(name, width) for name in names]
    owners = defaultdict(set)
    for name, text in zip(names, short, strict=True):
        owners[text].add(name)
    alike = {name for one in owners.values() if len(one) > 1 for name in one}
    shared = _shared_starts(alike)
    return [
        _truncate_prefix(name, shared[name], width) if name in alike else text
        for name, text in zip(names, short, strict=True)
    ]


def _shared_starts(names: Iterable[str]) -> dict[str, int]:
    """Return the length of the longest prefix that each name shares with another name."""
    shared: dict[str, int] = defaultdict(int)
    # In sorted order, a neighbor has the longest common prefix.
    for one, other in pairwise(sorted(names)):
        pairs = enumerate(zip(one, other, strict=False))
        length = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
        shared[one] = max(shared[one], length)
        shared[other] = max(shared[other], length)
    return shared


def _truncate_prefix(name: str, shared: int, width: int) -> str:
    """Return a name whose shared prefix is shortened before the first different word."""
    least = min(_MIN_OWN, width * 3 // 5)
    start = min(shared, max(len(name) - least, 0))
    # Stop the search at `least`, because longer words are not shown completely.
    match = _WORD_END.search(name[max(0, start - least) : start])
    word = len(match[0]) if match else 0
    # A long word would leave no space for the part that differs.
    if start == shared and word < start and word <= least // 2:
        start -= word
    head = truncate(name[:start], max(width - cell_width(name[start:]), width * 2 // 5))
    return head + truncate(name[start:], width - cell_width(head))
