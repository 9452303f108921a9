"""Runs several analyses of one store at a time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tracekit.analysis.interruptible import interruptible
from tracekit.analysis.result import Result
from tracekit.analysis.run import run_analysis
from tracekit.analysis.spec import Spec
from tracekit.database import cursor_of
from tracekit.database.engine import duckdb
from tracekit.errors import StoreError


def run_analyses(connection: duckdb.DuckDBPyConnection, specs: Sequence[Spec]) -> list[Result]:
    """Run several analyses with their default parameters, two at a time.

    DuckDB plans a statement on one thread, and planning is most of the time of a small trace. What
    finds no room beside another is run alone behind them.

    Args:
        connection: as for :func:`run_analysis`.
        specs: the analyses.

    Returns:
        Their results, in the order of ``specs``.

    Raises:
        The errors of :func:`run_analysis`.
    """
    cursors = _Cursors(connection, 2)
    # From the last on: of a breakdown that is health, the longest; the short ones fill up the end.
    waiting = iter(reversed(list(enumerate(specs))))
    results: dict[int, Result] = {}
    too_large: list[tuple[int, Spec]] = []

    def drain(cursor: duckdb.DuckDBPyConnection) -> None:
        for position, spec in waiting:
            try:
                results[position] = run_analysis(cursor, spec, {})
            except StoreError as error:
                if not isinstance(error.__cause__, duckdb.OutOfMemoryException):
                    raise
                too_large.append((position, spec))

    def work() -> None:
        with ThreadPoolExecutor(len(cursors.all), thread_name_prefix="tracekit-query") as pool:
            for done in [pool.submit(drain, cursor) for cursor in cursors.all]:
                done.result()
        for position, spec in too_large:
            results[position] = run_analysis(cursors.all[0], spec, {})

    try:
        interruptible(cursors, work)
    finally:
        cursors.close()
    return [results[position] for position in range(len(specs))]


class _Cursors:
    """Connections to the store of another one, which are interrupted together."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, count: int) -> None:
        self.all = [cursor_of(connection) for _ in range(count)]

    def interrupt(self) -> None:
        for cursor in self.all:
            cursor.interrupt()

    def close(self) -> None:
        for cursor in self.all:
            cursor.close()
