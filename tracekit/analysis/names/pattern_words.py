"""Selects the patterns that may match names, by the words that every match must contain.

Compiling the patterns of all rules takes longer than matching them, and about three quarters match
nothing in a given trace. The words are a necessary condition, so no matching pattern is excluded.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Ways: TypeAlias = "list[list[str | Ways]]"
"""Alternatives. Each is a list of lowercase words or nested alternatives, all of which a match
contains."""

_ANY: Ways = [[]]

_TOKEN = re.compile(
    r"(?P<class>\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\])|(?P<flags>\(\?[imsU-]+\))"
    r"|(?P<open>\((?!\?)|\(\?[imsU-]*:)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<optional>[*?]|\{0?,?\d*\}|\{0,\})|(?P<repeated>\+|\{\d+(?:,\d*)?\})"
    r"|(?P<word>[\w:]+)|(?P<mark>\\[\WwWdDsSbBA]|[.^$, <>=/&#%@~!\"';-])",
    re.ASCII,
)


def ways_to_match(pattern: str) -> Ways:
    """Return the words that a match of an RE2 pattern must contain; `[[]]` for unusual syntax."""
    groups: list[Ways] = [[[]]]
    before = ""
    end = 0
    for token in _TOKEN.finditer(pattern):
        kind = str(token.lastgroup)
        if token.start() != end:
            return _ANY
        end = token.end()
        way = groups[-1][-1]
        if kind == "word":
            way.append(token[0].lower())
        elif kind == "open":
            groups.append([[]])
        elif kind == "close":
            if len(groups) == 1:
                return _ANY
            group = groups.pop()
            groups[-1][-1].append(group)
        elif kind == "bar":
            groups[-1].append([])
        elif kind == "optional" and before in ("word", "close"):
            # The quantifier applies only to the last letter of the word.
            last = way.pop()
            way.extend([last[:-1]] if isinstance(last, str) else [])
        before = kind
    return groups[0] if len(groups) == 1 and end == len(pattern) else _ANY


def may_match(ways: Ways, names: str) -> bool:
    """Return whether any name may match. `names` is one string, after `str.casefold`."""
    return any(
        all(one in names if isinstance(one, str) else may_match(one, names) for one in way)
        for way in ways
    )
