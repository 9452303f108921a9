"""Graph captures in separate files; tests/cases/captures.case tests other captures."""

import json

import pytest
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.errors import StoreError, TraceError, UsageError
from tracekit.opening import ingest

CAPTURE = [
    call(100, 101, name="cudaStreamBeginCapture"),
    span("python_function", "nn.Module: Linear_0", 110, 130),
    span("cpu_op", "aten::mm", 111, 129),
    span("cuda_runtime", "hipLaunchKernel", 112, 113, correlation=1, kernel="gemm"),
    call(198, 199, name="cudaStreamEndCapture"),
    # Work of the file of the capture is not counted.
    kernel("other", 1, 9),
]
REPLAYS = [
    event
    for at in (2_000, 2_100)
    for event in (call(at, at + 2, at, "cudaGraphLaunch"), kernel("gemm", at + 10, at + 14, at))
]


def written(folder, events, name):
    path = folder / name
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_a_capture_in_a_file_of_its_own(tmp_path):
    """It is part of the key of the cache."""
    trace = written(tmp_path, REPLAYS, "trace.json")
    capture = written(tmp_path, CAPTURE, "capture.json")
    known = []
    for options in ({}, {"capture": capture}, {}):
        with tracekit.open(trace, **options) as opened:
            assert opened.sql("SELECT count(*) FROM event").rows == [(len(REPLAYS),)]
            known.append(opened.sql("SELECT op_name FROM attributed_events").column("op_name"))
    assert known == [[None, None], ["aten::mm", "aten::mm"], [None, None]]
    with pytest.raises(UsageError):
        tracekit.open(trace, capture, capture=capture)
    with pytest.raises(TraceError):
        tracekit.open(trace, capture=trace, cache=False)
    store = ingest([trace], tmp_path / "a.duckdb", capture=capture)
    with pytest.raises(StoreError):
        tracekit.open(store, capture=capture)
