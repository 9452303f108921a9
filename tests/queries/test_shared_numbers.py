"""Numbers that programs share out once, and that a damaged or hostile file shares out often."""

import time

import pytest

import tracekit


def kernel(ts, correlation, **more):
    args = {"stream": 7, "device": 0, "correlation": correlation, **more}
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": ts, "dur": 1} | {
        "args": args
    }


def call(ts, correlation, **more):
    args = {"correlation": correlation, **more}
    shown = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
    return shown | {"ts": ts, "dur": 1, "args": args}


def op(ts, **args):
    return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1} | {
        "ts": ts,
        "dur": 2,
        "args": args,
    }


@pytest.mark.parametrize("shared", ["correlation", "everything"])
@pytest.mark.nightly("compares CPU times")
def test_growth_of_one_number_shared_by_all(tiny_trace, shared):
    """Sixteen times the events take no 64 times the time; all pairs would take 256 times."""
    more = {} if shared == "correlation" else {"External id": 4, "Sequence number": 5}
    taken_s = []
    for count in (375, 16 * 375):
        events = [
            event
            for at in range(0, 3 * count, 3)
            for event in (op(at, **more), call(at, 9, **more), kernel(at + 5, 9, **more))
        ]
        path = tiny_trace(events)
        begun = time.process_time()
        with tracekit.open(path, cache=False) as trace:
            assert trace.sql("SELECT count(launch_id) FROM launch_link").rows == [(count,)]
        taken_s.append(time.process_time() - begun)
    assert taken_s[1] <= 64 * max(taken_s[0], 0.1)
