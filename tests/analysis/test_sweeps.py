"""The compiled sweeps make the rows that SQL makes, in the same order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cases_as_ranks import opened_as_ranks
from traces_by_hand import Event, span

import tracekit
from tracekit.analysis import context_walk
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.relations import ensure, functions_of
from tracekit.analysis.rules import create_rule_tables
from tracekit.analysis.sweeps import SWEEPS, SWEPT, compiled_sweeps, sweep_table, swept
from tracekit.database import STORE, add_session
from tracekit.sql_text import rows

pytest.importorskip(
    "tracekit.analysis._sweeps",
    reason="the sweeps are not compiled: there was no C compiler at installation",
)

INPUTS = {
    "device_events": {
        "device_work": "trace_id INTEGER, device VARCHAR, event_id BIGINT, piece BIGINT, "
        "stream BIGINT, category VARCHAR, name VARCHAR, ts_ns BIGINT, dur_ns BIGINT, "
        "correlation BIGINT, bytes BIGINT, mark_class VARCHAR",
        "kernel_class": "name VARCHAR, category VARCHAR, class VARCHAR, kind VARCHAR",
    },
    "device_gaps": {
        "device_events": "trace_id INTEGER, device VARCHAR, event_id BIGINT, piece BIGINT, "
        "stream BIGINT, kind VARCHAR, class VARCHAR, ts_ns BIGINT, end_ns BIGINT, "
        "correlation BIGINT",
    },
    "cpu_work": {
        "event": "trace_id INTEGER, pid BIGINT, tid BIGINT, event_id BIGINT, category VARCHAR, "
        "name VARCHAR, external_id BIGINT, ts_ns BIGINT, dur_ns BIGINT",
        "accelerator": "trace_id INTEGER, accelerator VARCHAR, is_recorded BOOLEAN",
    },
}
CLASSES = [
    ("gemm", "kernel", "gemm", "compute"),
    ("gemm", None, "other", "compute"),
    ("all_reduce", "kernel", "comm_allreduce", "comm"),
    ("copy", "gpu_memcpy", "memcpy_d2h", "memcpy"),
]
MARKS = [None, None, None, "comm_other", "memcpy_h2d", "attention"]
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        add_session(connection, [STORE])
        create_rule_tables(connection)
        ensure(connection, functions_of(load_catalog().tables[name] for name in SWEEPS))
        yield connection


def both(
    connection: duckdb.DuckDBPyConnection, name: str, tables: dict[str, list[Row]]
) -> tuple[list[Row] | None, list[Row]]:
    """Return what the sweep of a table makes, None where it gives up, and what SQL does."""
    spec = load_catalog().tables[name]
    for table, columns in INPUTS[name].items():
        connection.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")
        if tables[table]:
            connection.execute(f"INSERT INTO {table} VALUES {rows(tables[table])}")
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    is_swept = sweep_table(connection, spec)
    swept = connection.execute(f"FROM {name}").fetchall() if is_swept else None
    connection.execute(f"CREATE OR REPLACE TABLE {name} AS {spec.sql}")
    return swept, connection.execute(f"FROM {name}").fetchall()


def times(some: random.Random) -> tuple[int, int]:
    """Return a start and a duration: few moments, so that many are equal."""
    base = some.choice([0, 0, 0, -50, 2**61])
    return base + some.randrange(40), some.choice([0, 0, 1, 2, 5, 30])


def device_work(some: random.Random, count: int) -> dict[str, list[Row]]:
    events = []
    for event_id in range(count):
        name, category, _, _ = some.choice(CLASSES)
        device, stream = some.choice(["0", "0", "1", "cpu", ""]), some.choice([7, 8, -3, None])
        correlation, size = some.choice([0, None, 5, 9]), some.choice([None, 64])
        marks = (correlation, size, some.choice(MARKS))
        start, length = times(some)
        place = (some.randrange(2), device, event_id, 0, stream)
        events.append((*place, category, name, start, length, *marks))
    some.shuffle(events)
    return {"device_work": events, "kernel_class": list(CLASSES)}


def device_events(some: random.Random, count: int) -> dict[str, list[Row]]:
    events: list[Row] = []
    for event_id in range(count):
        device, stream = some.choice(["0", "1"]), some.choice([7, 7, 8, None])
        start, length = times(some)
        kind = some.choice([("compute", "gemm"), ("comm", "comm_other"), ("memcpy", "")])
        correlation = some.choice([None, 0, 3, 4, event_id + 10])
        events.append(
            (event_id % 2, device, event_id, 0, stream, *kind, start, start + length, correlation)
        )
    # As table device_events has them.
    nulls_last = [(row[4] is None, row[4] or 0, row[9] is None, row[9] or 0) for row in events]
    order = sorted(
        range(count), key=lambda at: (*events[at][:2], *events[at][7:9], *nulls_last[at], at)
    )
    return {"device_events": [events[at] for at in order]}


def cpu_events(some: random.Random, count: int) -> dict[str, list[Row]]:
    kinds = [
        ("cpu_op", "aten::mm"),
        ("cpu_op", "aten::add"),
        ("cpu_op", "autograd::engine"),
        ("cpu_op", "MulBackward0"),
        ("cpu_op", "c10d::allreduce_"),
        ("user_annotation", "gloo:all_reduce"),
        ("user_annotation", "step"),
        ("cuda_runtime", "cudaLaunchKernel"),
    ]
    events: list[Row] = []
    for event_id in range(count):
        trace_id, tid = some.randrange(3), some.choice([1, 1, 1, 2, None])
        kind, external = some.choice(kinds), some.choice([None, 1, 2])
        events.append((trace_id, 1, tid, event_id, *kind, external, *times(some)))
    some.shuffle(events)
    traces = [(0, "cpu", True), (1, "cuda", True), (2, "cuda", False)]
    return {"event": events, "accelerator": traces}


MAKERS = {"device_events": device_work, "device_gaps": device_events, "cpu_work": cpu_events}


@pytest.mark.parametrize("name", SWEEPS)
@pytest.mark.parametrize("count", [0, 1, 8, 60, 400])
def test_a_sweep_makes_the_rows_that_sql_makes(
    connection: duckdb.DuckDBPyConnection, name: str, count: int
) -> None:
    for seed in range(6 if count else 1):
        some = random.Random(seed * 1000 + count)
        swept, made = both(connection, name, MAKERS[name](some, count))
        assert swept == made, f"native/{SWEEPS[name].name}.c and {name}.sql make different rows"
    assert made or count < 60


def test_more_rows_than_a_batch_has(connection: duckdb.DuckDBPyConnection) -> None:
    """One copy is open for longer than a batch of rows lasts, and a collective across its end."""
    kernels: list[Row] = [
        (0, "0", at, 0, 7, "kernel", "gemm", at * 3, 2, None, None, None) for at in range(3)
    ]
    copies: list[Row] = [
        (0, "0", 150_001, 0, 8, "gpu_memcpy", "copy", 10, 300_000, 1, 2, None),
        (0, "0", 150_002, 0, 9, "kernel", "all_reduce", 300_001, 10, 1, 2, None),
    ]
    tables = {"device_work": kernels + copies, "kernel_class": list(CLASSES)}
    both(connection, "device_events", tables)
    connection.execute(
        "INSERT INTO device_work SELECT 0, '0', i, 0, 7, 'kernel', 'gemm', i * 3, 2, NULL, NULL, "
        "NULL FROM range(3, 150_000) AS t (i)"
    )
    spec = load_catalog().tables["device_events"]
    connection.execute("DROP TABLE device_events")
    assert sweep_table(connection, spec)
    connection.execute(f"CREATE TABLE by_sql AS {spec.sql}")
    (differ,) = connection.execute(
        "SELECT count(*) FROM device_events AS a POSITIONAL JOIN by_sql AS b WHERE a <> b"
    ).fetchall()[0]
    found = connection.execute(
        "SELECT event_id, kind_wall_ns, wall_ns FROM device_events WHERE event_id > 150_000"
    ).fetchall()
    assert differ == 0, "native/owned_time.c and device_events.sql make different rows"
    assert found == [(150_001, 300_000, 99_997), (150_002, 10, 3)]


def test_what_a_sweep_does_not_know_is_done_by_sql(connection: duckdb.DuckDBPyConnection) -> None:
    work = [(0, "0", 1, 0, 7, "kernel", "odd", 5, 2, None, None, None)]
    tables: dict[str, list[Row]] = {
        "device_work": list(work),
        "kernel_class": [("odd", "kernel", "odd", "odd")],
    }
    swept, made = both(connection, "device_events", tables)
    assert swept is None
    assert len(made) == 1


def test_a_sweep_takes_the_columns_that_it_knows(connection: duckdb.DuckDBPyConnection) -> None:
    compiled = compiled_sweeps()
    for statement in ("SELECT 1", "SELECT 1.5, 'a', 1, 1, 1, 'a', 'a', 1, 1, 1"):
        stream = connection.cursor().sql(statement).__arrow_c_stream__()
        with pytest.raises(TypeError, match="the columns must be lullluulll"):
            compiled.sweep("gaps", stream)
    stream = connection.cursor().sql("SELECT 1").__arrow_c_stream__()
    with pytest.raises(ValueError, match="no such sweep"):
        compiled.sweep("none", stream)


_OF_THE_WALK = ("surroundings", "module")


def spans_of_all_kinds(some: random.Random, count: int) -> list[Event]:
    """Return spans that nest, cross and touch, of all that the walk over threads tells apart."""
    kinds = [
        *[("cpu_op", "aten::mm")] * 4,
        ("cpu_op", "detach"),
        ("cpu_op", "MyFunction"),
        ("cpu_op", "c10d::allreduce_"),
        ("cpu_op", "autograd::engine::evaluate_function: MmBackward0"),
        ("cpu_op", "MmBackward0"),
        ("cpu_op", "MyFunctionBackward"),
        ("user_annotation", "tk/module/forward/fc#Linear"),
        ("user_annotation", "tk/module/backward/fc#Linear"),
        ("user_annotation", "tk/phase/decode"),
        ("user_annotation", "gloo:all_reduce"),
        ("user_annotation", "Optimizer.step#AdamW.step"),
        ("user_annotation", "my range"),
        ("python_function", "nn.Module: Linear_0"),
        ("python_function", "nn.Module: Block_1"),
        ("python_function", "torch/utils/checkpoint.py(1): recompute_fn"),
    ]
    events: list[Event] = []
    for number in range(count):
        category, name = some.choice(kinds)
        args: dict[str, int] = {}
        if category == "cpu_op" and some.random() < 0.5:
            args["Sequence number"] = some.randrange(5)
        if "Backward" in name and some.random() < 0.5:
            args["Fwd thread id"] = 1
        start = some.randrange(200)
        end = start + some.choice([0, 1, 3, 20, 80]) + some.choice([0, 0, 0.5])
        events.append(span(category, name, start, end, some.choice([1, 1, 2]), **args))
        if some.random() < 0.4:
            at = some.randrange(200)
            events.append(
                span("cuda_runtime", "cudaLaunchKernel", at, at, 1, correlation=number + 1)
            )
    return events


def test_the_compiled_walk_notes_what_the_one_in_python_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = span("kernel", "k", 300, 301, 7, correlation=1, device=0, stream=7) | {"pid": 0}
    made = [spans_of_all_kinds(random.Random(seed), 150) for seed in range(6)]
    found = []
    for is_compiled in (True, False):
        with monkeypatch.context() as patch:
            if not is_compiled:
                patch.setattr(context_walk, "compiled_sweeps", lambda: None)
            cases = [*made, *([*events, kernel] for events in made)]
            with opened_as_ranks(tmp_path, cases) as trace:
                found.append(
                    [trace.sql(f"FROM {table} ORDER BY ALL").rows for table in _OF_THE_WALK]
                )
    assert found[0] == found[1]
    # A row begins with the number of its trace.
    counts = Counter(row[0] for rows in found[0] for row in rows)
    assert len(counts) == 12
    assert min(counts.values()) > 20


def test_what_the_walk_raises_comes_out(
    tiny_trace: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(context_walk, "_inside", fail)
    path = tiny_trace([span("python_function", "nn.Module: Linear_0", 1, 5)])
    with tracekit.open(path, cache=False) as trace, pytest.raises(KeyboardInterrupt):
        trace.sql("FROM attribution")


LEAST, MOST = -(2**63) + 1, 2**63 - 1

HOSTILE_GRAPHS = {
    "replay": [
        [(0, LEAST, MOST, 1, 1, 1)],
        [(0, None, 5, 1, 1, 1)],
        [(0, None, None, None, None, None)],
        [(0, 1, 2, MOST, 1, 0), (1, 2, 3, MOST, 1, 1), (2, 1, 3, LEAST, 1, 1)],
        [(0, 0, 0, 1, 1, 1), (1, 0, 1, 1, 1, 1), (2, 1, 0, 1, 1, 1)],
        [(0, 0, 70_000_000, 1, 1, 1)],
    ],
    "gains": [
        [(0, 1, 2, 1, 1, 1, None), (10**9, None, None, None, None, None, 0)],
        [(0, 1, 2, 1, 1, 1, None), (-1, None, None, None, None, None, 0)],
        [(0, 1, 2, 1, 1, 1, None), (None, None, None, None, None, None, MOST)],
        [(0, 1, 2, MOST, 1, 1, None), (1, 2, 3, MOST, 1, 1, None), (0, *[None] * 5, 0)],
    ],
    "moments": [
        [(1, 2, 1, group, MOST, 1, LEAST, 1, 1)]
        for group in (-1, LEAST, MOST, 1 << 58, 461168601842738791, None)
    ],
    "path": [
        [(0, LEAST, MOST, 1), (1, MOST, LEAST, 1)],
        [(0, 1, None, 1), (1, None, 1, 1)],
        [(0, 1, 2, 1), (1, 2, 1, 1)],
    ],
}


@pytest.mark.parametrize(
    ("name", "taken"), [(name, one) for name, many in HOSTILE_GRAPHS.items() for one in many]
)
def test_numbers_that_no_graph_has(name: str, taken: list[tuple[int | None, ...]]) -> None:
    """A store may hand over any: a sweep refuses them or gives something, and stays within."""
    columns = [f"c{number}" for number in range(len(taken[0]))]
    declared = ", ".join(f"{column}::BIGINT" for column in columns)
    with duckdb.connect() as connection:
        statement = f"SELECT {declared} FROM (VALUES {rows(taken)}) AS t({', '.join(columns)})"
        found: list[tuple[int, ...]] = []
        refused = (duckdb.InvalidInputException, duckdb.OutOfMemoryException)
        with suppress(*refused), swept(connection, name, statement):
            found = connection.execute(f"FROM {SWEPT}").fetchall()
        assert len(found) <= 100


def test_a_group_below_the_first() -> None:
    statement = "SELECT " + ", ".join(f"c{number}::BIGINT" for number in range(9))
    taken = [(1, 2, 1, group, 1, 1, 1, 1, 1) for group in (-1, 3)]
    names = ", ".join(f"c{number}" for number in range(9))
    with (
        duckdb.connect() as connection,
        pytest.raises(duckdb.InvalidInputException, match="below 0"),
        swept(connection, "moments", f"{statement} FROM (VALUES {rows(taken)}) AS t({names})"),
    ):
        connection.execute(f"FROM {SWEPT}").fetchall()


@pytest.mark.parametrize("bits", [1 << 40, MOST, LEAST, -1, -16])
def test_a_marker_that_is_none(bits: int) -> None:
    class Owner:
        def begin_thread(self, trace_id: int) -> None: ...

    statement = (
        f"SELECT 1::BIGINT AS a, 1::BIGINT AS b, 1::BIGINT AS c, 1::BIGINT AS d, {LEAST}::BIGINT, "
        f"{MOST}::BIGINT, ({bits})::BIGINT"
    )
    with (
        duckdb.connect() as connection,
        pytest.raises(duckdb.Error, match="marker"),
        swept(connection, "contexts", statement, Owner(), b"ob"),
    ):
        connection.execute(f"FROM {SWEPT}").fetchall()
