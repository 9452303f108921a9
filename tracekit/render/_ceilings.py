"""Measured ceilings beside a table: the texts that go with them stand below it, each once.

A table of figures with two sentences in every row fits no terminal. So where a result has columns
`ceiling_…`, those that say nothing in any row are left out of the table, and the measurements and
the reasons for what is missing become lines below it. Exact formats have every column of every row.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from tracekit.render._text import printable

if TYPE_CHECKING:
    from tracekit.analysis.result import Result

_PREFIX = "ceiling_"
_TEXTS = {"ceiling_source": "measured", "ceiling_reason": "no ceiling"}
_MAX_TEXTS = 5
_MAX_LENGTH = 200
_OTHER_THREADS = re.compile(r"it was measured with \d+ threads?, the rank had (\d+) threads?")


def without_texts(result: Result) -> Result:
    """Return a result without texts about ceilings, and without ceilings that no row has."""
    from tracekit.analysis.result import Result

    if not _TEXTS.keys() & set(result.column_names) or not result.rows:
        return result
    kept = [
        index
        for index, name in enumerate(result.column_names)
        if not name.startswith(_PREFIX)
        or (name not in _TEXTS and any(row[index] is not None for row in result.rows))
    ]
    return Result(
        result.name,
        tuple(result.columns[index] for index in kept),
        [tuple(row[index] for index in kept) for row in result.rows],
    )


def text_lines(result: Result, width: int) -> Iterator[Text]:
    """Return the lines that tell what was measured, and why a ceiling is missing."""
    for name, label in _TEXTS.items():
        if name not in result.column_names:
            continue
        texts = list(dict.fromkeys(text for text in result.column(name) if text))
        if not texts:
            continue
        shown = [printable(text[:_MAX_LENGTH]) for text in texts[:_MAX_TEXTS]]
        more = [f"and {len(texts) - _MAX_TEXTS:,} more"] if len(texts) > _MAX_TEXTS else []
        sentence = f"{label}: {'; '.join(shown + more)}"
        if threads := next(filter(None, map(_OTHER_THREADS.fullmatch, texts)), None):
            family = "memcpy" if result.name == "memcpy" else "gemm"
            sentence += f" (measure it: OMP_NUM_THREADS={threads[1]} tracekit bench {family})"
        for line in textwrap.wrap(sentence, width, subsequent_indent="  "):
            yield Text(line, style="dim")
