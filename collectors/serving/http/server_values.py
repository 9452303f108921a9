"""What a server says is not trusted: its text, numbers and JSON, checked before they are used."""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any

LARGEST_COUNT = 2**31 - 1
MOST_RANKS = 65_536
_DEEPEST = 32
_LONGEST_KEPT_TEXT = 4096
_NAME_LENGTH = 200


def plain(text: str, length: int) -> str:
    """Return a text in one line of at most so many characters, and safe to show.

    What could change how the text around it is shown (controls, surrogates, bidirectional marks)
    becomes a replacement character.
    """
    short = " ".join(text[: 4 * length].split())[:length]
    if short.isascii() and short.isprintable():
        return short
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character)[0] == "C" else character
        for character in short
    )


def a_name(value: object) -> str | None:
    """Return a value that is a name, else None."""
    return plain(value, _NAME_LENGTH) or None if isinstance(value, str) else None


def a_count(value: object, most: int = LARGEST_COUNT) -> int | None:
    """Return a value that is a count from 1 to a limit, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 1 <= value <= most else None


def an_answer(body: bytes) -> Any:
    """Return what a server answers to a question about itself, as JSON that can be kept.

    Numbers that JSON does not know are null, texts are plain and have a bounded length.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    try:
        value = json.loads(body, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return _kept(value, 0)


def _kept(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, dict):
        return {plain(key, _NAME_LENGTH): _kept(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_kept(item, depth + 1) for item in value]
    return plain(value, _LONGEST_KEPT_TEXT) if isinstance(value, str) else value


def _no_number(text: str) -> None:
    del text


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None
