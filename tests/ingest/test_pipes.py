"""Pipes are read like files: a shell's `<(zcat trace.json.gz)` and standard input."""

import json
import os
import sys
from contextlib import contextmanager

import pytest

import tracekit
from tracekit.opening import ingest

TRACE = [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes have names in /dev/fd")


@contextmanager
def pipe():
    """Yield the name of a pipe that holds a trace."""
    out, into = os.pipe()
    os.write(into, json.dumps(TRACE).encode())
    os.close(into)
    try:
        yield f"/dev/fd/{out}"
    finally:
        os.close(out)


def test_two_pipes_are_two_traces():
    with pipe() as first, pipe() as second, tracekit.open(first, second) as trace:
        assert trace.query("timeline").column("busy_ns") == [2000, 2000]
        assert trace.query("trace").column("rank") == [None, None]
        sizes = trace.sql("SELECT DISTINCT file_bytes FROM trace").rows
    assert sizes == [(len(json.dumps(TRACE)),)]


def test_a_store_of_a_pipe_names_its_source(tmp_path):
    with pipe() as name:
        store = ingest([name], tmp_path / "of_pipe.duckdb")
    with tracekit.open(store) as trace:
        assert trace.sql("SELECT path FROM trace").to_dicts() == [{"path": name}]
