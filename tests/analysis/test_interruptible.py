"""Work on a connection ends when the process is interrupted, and otherwise as it would anyway."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import duckdb
import pytest

from tracekit.analysis.interruptible import interruptible


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as open_connection:
        yield open_connection


def test_a_result_comes_back(connection: duckdb.DuckDBPyConnection) -> None:
    assert interruptible(connection, lambda: connection.execute("SELECT 7").fetchall()) == [(7,)]


def test_an_error_comes_back_as_it_is(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.CatalogException, match="nothing"):
        interruptible(connection, lambda: connection.execute("SELECT * FROM nothing"))


def test_another_thread_runs_the_work_itself(connection: duckdb.DuckDBPyConnection) -> None:
    names: list[tuple[str, str]] = []

    def ask() -> None:
        inner = interruptible(connection, lambda: threading.current_thread().name)
        names.append((threading.current_thread().name, inner))

    thread = threading.Thread(target=ask, name="somebody's own")
    thread.start()
    thread.join()
    assert names == [("somebody's own", "somebody's own")]


def test_an_interrupt_between_statements_is_not_lost(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    slow = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        # The interrupt arrives while no statement runs.
        time.sleep(0.3)
        connection.execute(slow)

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interruptible(connection, work)
    assert time.monotonic() - begin < 20
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
