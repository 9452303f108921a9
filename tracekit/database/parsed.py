"""SQL that a process runs again and again is parsed once.

Parsing is a tenth of what a small trace costs, and creating the tables and macros of a store is
little else. A process that reads one trace runs each statement once, and keeps nothing: what is
parsed is kept from the second time on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_MOST_STATEMENTS = 512
"""How many texts are kept; all that tracekit brings are about half of that."""

_seen: set[int] = set()
_parsed: OrderedDict[str, list[duckdb.Statement]] = OrderedDict()
_lock = threading.Lock()


def execute(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Run SQL of tracekit's own; the result of its last statement is that of the connection.

    Args:
        connection: it runs the SQL, as its own ``execute`` would.
        text: one statement or several, without parameters.

    Raises:
        duckdb.Error: as from the connection's own ``execute``.
    """
    statements = _statements(connection, text)
    if statements is None:
        connection.execute(text)
        return
    for statement in statements:
        connection.execute(statement)


def _statements(connection: duckdb.DuckDBPyConnection, text: str) -> list[duckdb.Statement] | None:
    """Return a text parsed; None where it is seen for the first time."""
    with _lock:
        known = _parsed.get(text)
        if known is not None:
            _parsed.move_to_end(text)
            return known
        key = hash(text)
        if key not in _seen:
            if len(_seen) > 4 * _MOST_STATEMENTS:
                _seen.clear()
            _seen.add(key)
            return None
    statements = connection.extract_statements(text)
    with _lock:
        _parsed[text] = statements
        if len(_parsed) > _MOST_STATEMENTS:
            _parsed.popitem(last=False)
    return statements
