"""The interval macros that idle time rests on, against a plain count of the same thing."""

from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb
import pytest

from tracekit.analysis.catalog import load_catalog


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        macros = load_catalog().functions
        for name in ("event_category", "interval_union", "interval_gaps"):
            made.execute(macros[name].sql)
        made.execute(macros["interval_innermost"].sql)
        made.execute(macros["host_wait_names"].sql)
        yield made


Span = tuple[str, int, int, int]


def _spans(seed: int, count: int = 40, longest: int = 30) -> list[Span]:
    rng = random.Random(seed)
    spans = []
    for number in range(count):
        start = rng.randrange(200)
        spans.append((rng.choice("ab"), number, start, start + rng.randrange(longest)))
    return spans


def _fill(connection: duckdb.DuckDBPyConnection, spans: list[Span]) -> None:
    rows = ", ".join(map(str, spans))
    connection.execute(
        "CREATE OR REPLACE TABLE spans AS "
        f"SELECT * FROM (VALUES {rows}) AS s (part, id, start_ns, end_ns)"
    )
    connection.execute(
        "CREATE OR REPLACE TABLE moments AS "
        "SELECT part, row_number() OVER (ORDER BY part, at_ns) AS id, at_ns "
        "FROM (VALUES ('a'), ('b')) AS p (part), (SELECT unnest(range(-1, 240)) AS at_ns)"
    )
    # Two of them at the same time.
    connection.execute("INSERT INTO moments VALUES ('a', 100000, 50)")


@pytest.mark.parametrize("seed", range(8))
def test_gaps(connection: duckdb.DuckDBPyConnection, seed: int) -> None:
    spans = _spans(seed, longest=8)
    _fill(connection, spans)
    found = connection.sql(
        "SELECT part, start_ns, end_ns, previous_id, next_id FROM interval_gaps('spans')"
    ).fetchall()
    for part in "ab":
        mine = [span for span in spans if span[0] == part]
        covered = {t for _, _, start, end in mine for t in range(start, end)}
        first = min(start for _, _, start, _ in mine)
        last = max(end for _, _, _, end in mine)
        gaps = [(start, end) for p, start, end, _, _ in found if p == part]
        idle = [t for start, end in gaps for t in range(start, end)]
        # A zero-length interval inside a gap cuts it in two.
        assert sorted(idle) == [t for t in range(first, last) if t not in covered]
    by_id = {span[1]: span for span in spans}
    for part, start, end, previous_id, next_id in found:
        assert start < end
        assert by_id[previous_id][0] == by_id[next_id][0] == part
        assert by_id[previous_id][3] == start
        assert by_id[next_id][2] == end


@pytest.mark.parametrize("seed", range(8))
def test_what_is_open(connection: duckdb.DuckDBPyConnection, seed: int) -> None:
    spans = _spans(seed)
    _fill(connection, spans)
    moments = connection.sql("SELECT part, id, at_ns FROM moments").fetchall()
    innermost = dict(
        connection.sql("SELECT id, span_id FROM interval_innermost('moments', 'spans')").fetchall()
    )
    for part, moment, at_ns in moments:
        around = [s for s in spans if s[0] == part and s[2] <= at_ns < s[3]]
        assert (moment in innermost) == bool(around)
        if around:
            best = max(around, key=lambda s: (s[2], -s[3], s[1]))
            assert innermost[moment] == best[1]


@pytest.mark.parametrize(
    ("name", "wait"),
    [
        ("cudaLaunchKernel", None),
        ("cudaGraphLaunch", None),
        ("cudaEventQuery", None),
        ("cudaStreamWaitEvent", None),
        ("cudaMemcpyAsync", "copy"),
        ("hipMemcpyAsync", "copy"),
        ("cuMemcpyHtoDAsync_v2", "copy"),
        ("cudaMemcpy", "sync"),
        ("hipMemcpyWithStream", "sync"),
        ("cudaDeviceSynchronize", "sync"),
        ("cuCtxSynchronize", "sync"),
        ("hipEventSynchronize", "sync"),
        ("zeEventHostSynchronize", "sync"),
        ("urQueueFinish", "sync"),
        ("cudaMalloc", "allocator"),
        ("cudaMallocAsync", "allocator"),
        ("cudaFree", "allocator"),
        ("cudaHostAlloc", "allocator"),
        ("hipExtMallocWithFlags", "allocator"),
        ("cuMemCreate", "allocator"),
        ("cuMemAddressReserve", "allocator"),
        ("urUSMDeviceAlloc", "allocator"),
        ("zeMemAllocDevice", "allocator"),
        ("cudaMemsetAsync", None),
        ("cudaMemGetInfo", None),
    ],
)
def test_calls_that_wait(
    connection: duckdb.DuckDBPyConnection, name: str, wait: str | None
) -> None:
    assert connection.sql(f"SELECT host_call_wait('{name}')").fetchall() == [(wait,)]


@pytest.mark.parametrize(
    ("category", "name", "wait"),
    [
        ("python_function", "torch/utils/data/dataloader.py(733): __next__", "data_loading"),
        ("python_function", "torch/utils/data/dataloader.py(733): __init__", None),
        ("python_function", "<built-in method wait of pybind11_builtins.pybind11_x", "comm_wait"),
        ("python_function", "<built-in method wait of PyCapsule object at 0x7f>", "comm_wait"),
        ("python_function", "<built-in method wait of torch._C.Event object>", None),
        ("python_function", "<built-in method acquire of _thread.RLock object at 0x7f>", "lock"),
        ("python_function", "<built-in method acquire of _multiprocessing.SemLock obj", "lock"),
        ("python_function", "<built-in method get of _queue.SimpleQueue object at 0x>", "lock"),
        ("python_function", "<built-in method get of dict object at 0x7f>", None),
        ("cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "data_loading"),
        ("cpu_op", "aten::_local_scalar_dense", "sync"),
        ("cpu_op", "aten::add", None),
        ("user_annotation", "tk/phase/data", "data_loading"),
        ("user_annotation", "tk/phase/forward", None),
        ("user_annotation", "## data ##", "data_loading"),
        ("user_annotation", "## wait_for_batch ##", "comm_wait"),
        ("user_annotation", "All2All_Pooled_Wait()", "comm_wait"),
        ("user_annotation", "await()", None),
        ("user_annotation", "c10d::barrier", "comm_wait"),
        ("gpu_user_annotation", "tk/phase/data", None),
    ],
)
def test_ranges_that_wait(
    connection: duckdb.DuckDBPyConnection, category: str, name: str, wait: str | None
) -> None:
    found = connection.sql(f"SELECT host_range_wait('{category}', '{name}')").fetchall()
    assert found == [(wait,)]
