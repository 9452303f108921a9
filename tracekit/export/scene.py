"""Rows of an export (slices and marks), and helpers for the SQL that selects them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

Row = tuple[Any, ...]


class Slice(NamedTuple):
    """One slice of a track; a mark is a slice of duration 0.

    Rows may begin with other columns, and may omit trailing ones. `args`, `extra` (other members in
    the file), and `facts` (tracekit's attribution) are JSON. `arrows` has the numbers of arrows
    that begin here, and the negated numbers of arrows that end here. On a flat track, a slice with
    `is_inner` is part of the latest slice without `is_inner`.
    """

    start_ns: int
    dur_ns: int
    name: str
    category: str | None = None
    event_id: int | None = None
    args: str | None = None
    extra: str | None = None
    facts: str | None = None
    arrows: list[int] | None = None
    is_inner: bool = False


BLOCK_BYTES = 1 << 20

_LONG = re.compile(r"[0-9]{19}")


def quoted_if_long(text: str | None) -> str | None:
    """Return JSON unchanged, or quoted as a JSON string if it contains very long numbers.

    Perfetto's engine misreads numbers above 64 bits; viewers show the string unchanged.
    """
    if text is None or not _LONG.search(text):
        return text
    return json.dumps(text, ensure_ascii=False)


def filled(text: str, values: Mapping[str, object]) -> str:
    """Return SQL with placeholders (words in capitals) replaced by their values."""
    return re.sub(r"\b[A-Z_]+\b", lambda match: str(values.get(match[0], match[0])), text)
