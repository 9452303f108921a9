"""Events that were read arrive in the store, or an error is raised on the reading thread."""

import json
from collections import deque

import duckdb
import pytest

from tracekit.analysis.library import library_file
from tracekit.database.building import build_temporary
from tracekit.ingest.event_collector import EventCollector
from tracekit.ingest.event_loader import EventLoader

COLLECTOR = EventCollector()


@pytest.fixture
def own_build():
    """Return a store that the test may damage."""
    with build_temporary(library_file()) as build:
        yield build


def block(first, count):
    for number in range(first, first + count):
        event = {"ph": "X", "name": f"op{number}", "pid": 1, "tid": 2, "ts": number, "dur": 1}
        COLLECTOR.event_count = number
        COLLECTOR.read_events([(json.dumps(event).encode(), 0)])
    (rows,) = COLLECTOR.take()
    return rows


def rows(build):
    return build.connection.execute("SELECT trace_id, event_id FROM record").fetchall()


@pytest.mark.parametrize("waits", [True, False])
def test_blocks_arrive_in_order_unless_abandoned(own_build, waits):
    for trace_id in (0, 1):
        loader = EventLoader(own_build.connection, trace_id)
        for first in range(0, 500, 100):
            loader.add(block(first, 100))
        if waits:
            loader.wait()
        loader.close()
    expected = [(trace_id, number) for trace_id in (0, 1) for number in range(500)]
    assert rows(own_build) == (expected if waits else [])


def test_an_error_of_the_store_is_raised(own_build):
    own_build.connection.execute("DROP TABLE record CASCADE")
    loader = EventLoader(own_build.connection, 0)
    try:
        with pytest.raises(duckdb.CatalogException):
            deque(map(loader.add, (block(first, 1) for first in range(1000))), maxlen=0)
        with pytest.raises(duckdb.CatalogException):
            loader.wait()
    finally:
        loader.close()


class FullMemory:
    """A cursor whose transactions run out of memory at commit."""

    def __init__(self, cursor):
        self._cursor = cursor

    def __getattr__(self, name):
        return getattr(self._cursor, name)

    def execute(self, *_):
        raise duckdb.TransactionException("Failed to commit: failed to pin block of size 256.0 KiB")


def test_a_transaction_without_memory_to_commit(own_build):
    loader = EventLoader(own_build.connection, 0)
    loader._cursor = FullMemory(loader._cursor)
    try:
        loader.add(block(0, 1))
        with pytest.raises(duckdb.OutOfMemoryException):
            loader.wait()
    finally:
        loader.close()
