"""How a header describes a column: its name, its type, what it joins, its meaning."""

from __future__ import annotations

import re

from tracekit.analysis.spec import Key

TYPE = r"[A-Z][A-Z0-9_]*(?:\([^)]*\))?(?:\[\])*"
"""A type, as headers write it."""

COLUMN = re.compile(
    rf"(?P<name>[a-z][a-z0-9_]*)\s+(?P<type>{TYPE})\s+"
    r"(?:->\s*(?P<table>[a-z][a-z0-9_]*)"
    r"(?:\.(?P<other>[a-z][a-z0-9_]*)|\((?P<several>[a-z0-9_, ]+)\))?\s+)?"
    r"(?P<meaning>(?!->)\S.*)"
)


def key_of(match: re.Match[str]) -> Key | None:
    """Return what a column joins, from a match of `COLUMN`; None if nothing."""
    if match["table"] is None:
        return None
    if match["several"] is not None:
        names = [name.strip() for name in match["several"].split(",")]
        return Key(match["table"], tuple((name, name) for name in names))
    return Key(match["table"], ((match["name"], match["other"] or match["name"]),))
