"""Streams of rows made of Python's memory, in a process with libraries that use the same C API."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys

import duckdb
import pytest

from tracekit.ingest import arrow_stream
from tracekit.ingest.arrow_stream import Leaf, Rows, new_stream


class Reader:
    """What DuckDB reads a stream from."""

    def __init__(self, rows: list[Rows | None]) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream."""
        return new_stream([Leaf("x", "l")], lambda: self._rows.pop(0))


def test_types_that_a_library_gives_the_functions_of_python_do_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A library that takes capsules so made the memory of a stream stay for ever."""
    for name in ("PyCapsule_New", "PyCapsule_GetPointer"):
        monkeypatch.setattr(getattr(ctypes.pythonapi, name), "argtypes", [ctypes.py_object] * 2)
        monkeypatch.setattr(getattr(ctypes.pythonapi, name), "restype", ctypes.c_int)
    gc.collect()
    held = len(arrow_stream._streams), len(arrow_stream._held)
    values = (7).to_bytes(8, sys.byteorder) + (8).to_bytes(8, sys.byteorder)
    reader = Reader([Rows(2, [[None, values]]), None])
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT sum(x) FROM reader").fetchall()
    assert rows == [(15,)]
    del reader
    gc.collect()
    assert (len(arrow_stream._streams), len(arrow_stream._held)) == held


def test_the_functions_of_python_keep_their_types() -> None:
    program = (
        "import ctypes, tracekit.ingest.arrow_stream\n"
        "for name in ('PyCapsule_New', 'PyCapsule_GetPointer'):\n"
        "    function = getattr(ctypes.pythonapi, name)\n"
        "    print(function.argtypes, function.restype)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "None <class 'ctypes.c_int'>\n" * 2
