r"""Make text from a trace safe to show.

Names, paths and arguments in a trace are untrusted: they may hold escape sequences that rewrite the
terminal, bidirectional controls that reorder a line, or newlines that break a table. Every such
character is shown as its escape (`\x1b`, `\u202e`); nothing is dropped.
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
# Selectors of variants beyond those of emojis: unseen, they can spell a text that assistants read.
_UNSEEN = frozenset(map(chr, range(0xE0100, 0xE01F0)))
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# With what stands before it, which a combining character may change.
_NOT_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
# Stacked accents take no width: without a limit one cell could cover the screen.
_MAX_COMBINING = 4

_LEAST_OWN = 30
"""Of a name that others only go on from, so many characters of its end are shown at least."""

_COMMON = re.compile(r"^void |at::native::|\(anonymous namespace\)::")
"""What names of kernels have in common."""

_WORD_END = re.compile(r"[\w.]*$")


def is_unsafe(character: str) -> bool:
    """Return whether a character could change how the text around it is shown."""
    return unicodedata.category(character) in _UNSAFE_CATEGORIES or character in _UNSEEN


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

    # Character by character, which takes long: a path may be thousands of letters and one dash.
    others = "".join(_NOT_ASCII.findall(text))
    return len(text) - len(others) + cell_len(others)


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


def without_middle(text: str, width: int) -> str:
    """Return the text in at most `width` cells, `…` for the middle: both ends of a name matter."""
    if cell_width(text) <= width:
        return text
    head = max(width - 1, 0) * 2 // 5
    end = shorten(text[: -width - 2 : -1], width - head)[::-1]
    return shorten(text, head + 1)[:-1] + end


def shortened(names: Sequence[str], width: int) -> list[str]:
    """Return names in at most `width` cells each, in their order.

    Of a long name, namespaces that every kernel of PyTorch has are dropped, and then the middle;
    where two would look the same, the middle of what they have in common.
    """
    names = [name if cell_width(name) <= width else _COMMON.sub("", name) for name in names]
    short = [without_middle(name, width) for name in names]
    owners = defaultdict(set)
    for name, text in zip(names, short, strict=True):
        owners[text].add(name)
    alike = {name for found in owners.values() if len(found) > 1 for name in found}
    shared = _shared_starts(alike)
    return [
        _without_middle(name, shared[name], width) if name in alike else text
        for name, text in zip(names, short, strict=True)
    ]


def _shared_starts(names: Iterable[str]) -> dict[str, int]:
    """Return the length of the longest beginning that each shares with another one of them."""
    shared: dict[str, int] = defaultdict(int)
    # Of sorted texts, a neighbour has it.
    for one, other in pairwise(sorted(names)):
        pairs = enumerate(zip(one, other, strict=False))
        length = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
        shared[one] = max(shared[one], length)
        shared[other] = max(shared[other], length)
    return shared


def _without_middle(name: str, shared: int, width: int) -> str:
    """Return how a name begins, and what of it is its own: from the word in which it differs."""
    least = min(_LEAST_OWN, width * 3 // 5)
    start = min(shared, max(len(name) - least, 0))
    # Of a long word it is enough to know that it is too long.
    found = _WORD_END.search(name[max(0, start - least) : start])
    word = len(found[0]) if found else 0
    # A word that is too long would leave no room for what differs.
    if start == shared and word < start and word <= least // 2:
        start -= word
    head = shorten(name[:start], max(width - cell_width(name[start:]), width * 2 // 5))
    return head + shorten(name[start:], width - cell_width(head))
