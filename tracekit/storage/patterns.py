"""Globs, and the order in which people count."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MAGIC = re.compile(r"[*?\[]")
_PIECE = re.compile(r"\[(?P<negated>!?)(?P<set>\]?[^\]/]*)\]|\*+|\?|[^*?\[]+|\[")


def has_magic(text: str) -> bool:
    """Tell whether a part of a path is a pattern."""
    return _MAGIC.search(text) is not None


def literal_start(text: str) -> str:
    """Return what everything that a pattern means begins with."""
    return _MAGIC.split(text, maxsplit=1)[0]


def as_regex(parts: Sequence[str]) -> re.Pattern[str]:
    """Return what a whole path below a folder matches; ``**`` stands for any number of folders."""
    text = ""
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part == "**":
            text += ".*" if is_last else "(?:[^/]+/)*"
        else:
            text += _one_part(part) + ("" if is_last else "/")
    return re.compile(text, re.DOTALL)


def _one_part(pattern: str) -> str:
    """Translate what stands between two slashes."""
    text = ""
    for piece in _PIECE.finditer(pattern):
        if piece[0].startswith("*"):
            text += "[^/]*"
        elif piece[0] == "?":
            text += "[^/]"
        elif piece["set"]:
            inside = re.sub(r"([\\\[\]^&~|])", r"\\\1", piece["set"])
            text += f"[{'^/' if piece['negated'] else ''}{inside}]"
        else:
            text += re.escape(piece[0])
    return text


def natural(text: str) -> tuple[tuple[object, ...], ...]:
    """Sort rank10 behind rank9, in every folder of a path."""
    return tuple(
        # What was split off stands in every second place, so text never meets a number.
        tuple(
            int(piece) if place % 2 else piece
            for place, piece in enumerate(re.split(r"(\d+)", part))
        )
        for part in text.split("/")
    )
