"""The rows of statements, in runs of those that belong to one track."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from tracekit.export.scene import Row

if TYPE_CHECKING:
    from tracekit.trace import Trace


def runs_of(
    trace: Trace, statements: Iterable[str], key_count: int
) -> Generator[tuple[Row, Iterable[Row]]]:
    """Ask statements one after the other; give the rows of each whose first columns are equal.

    Args:
        trace: the store; nothing else may be asked of it until the end.
        statements: SQL that orders rows by the first columns.
        key_count: how many columns these are.

    Yields:
        The first columns, and the whole rows, which have to be taken at once.
    """
    key = itemgetter(slice(key_count))
    for statement in statements:
        yield from groupby(trace.stream_sql(statement).rows, key)
