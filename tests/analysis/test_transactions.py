"""Relations that user SQL reads inside a transaction."""

import pytest
from traces_by_hand import work

import tracekit


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_transaction(tiny_trace, end):
    """Query `kernels` (one row) and `communication` (no rows) within and afterwards."""
    with tracekit.open(tiny_trace(work(0, 3, 5, 1)), cache=False) as trace:
        trace.sql("BEGIN")
        counts = "SELECT (SELECT count(*) FROM kernels), (SELECT count(*) FROM communication)"
        assert [trace.sql(counts).rows for _ in range(2)] == 2 * [[(1, 0)]]
        trace.sql(end)
        assert trace.sql(counts).rows == [(1, 0)]
