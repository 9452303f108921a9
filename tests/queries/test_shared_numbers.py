"""Numbers that programs share out once, and that a damaged or hostile file shares out often."""

import time

import pytest
from traces_by_hand import kernel, span

import tracekit


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
            for event in (
                span("cpu_op", "aten::mm", at, at + 2, **more),
                span("cuda_runtime", "cudaLaunchKernel", at, at + 1, correlation=9, **more),
                kernel("k", at + 5, at + 6, 9, **more),
            )
        ]
        path = tiny_trace(events)
        begun = time.process_time()
        with tracekit.open(path, cache=False) as trace:
            assert trace.sql("SELECT count(launch_id) FROM launch_link").rows == [(count,)]
        taken_s.append(time.process_time() - begun)
    assert taken_s[1] <= 64 * max(taken_s[0], 0.1)
