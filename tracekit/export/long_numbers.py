"""Numbers that viewers cannot hold: JSON with one becomes a JSON text, which they show as it is.

Perfetto's engine reads another number where one is beyond 64 bits.
"""

from __future__ import annotations

import json
import re

_LONG = re.compile(r"[0-9]{19}")


def quoted_if_long(text: str | None) -> str | None:
    """Return JSON as it is, or as a JSON text where so many digits follow one another in it."""
    if text is None or not _LONG.search(text):
        return text
    return json.dumps(text, ensure_ascii=False)
