"""The sweeps on more rows than a batch, and on numbers that no trace has."""

from contextlib import suppress

import duckdb
import pytest

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.library import start_session
from tracekit.analysis.passes.sweeps import SWEPT, sweep_table, swept
from tracekit.sql_text import rows


def test_owned_time_of_more_rows_than_a_batch():
    """A copy lasts longer than a batch of rows, and a collective runs across its end."""
    with duckdb.connect() as connection:
        start_session(connection, is_complete=True)
        spec = load_catalog().tables["device_events"]
        connection.execute(spec.empty_table())
        connection.execute(
            """
            CREATE TABLE kernel_class AS SELECT * FROM (VALUES
                ('gemm', 'kernel', 'gemm', 'compute'),
                ('all_reduce', 'kernel', 'comm_allreduce', 'comm'),
                ('copy', 'gpu_memcpy', 'memcpy_d2h', 'memcpy')
            ) AS t (name, category, class, kind);
            CREATE TABLE device_work (
                trace_id INTEGER, device VARCHAR, event_id BIGINT, piece BIGINT, stream BIGINT,
                category VARCHAR, name VARCHAR, ts_ns BIGINT, dur_ns BIGINT, correlation BIGINT,
                bytes BIGINT, mark_class VARCHAR
            );
            INSERT INTO device_work SELECT
                0, '0', i, 0, 7, 'kernel', 'gemm', i * 3, 2, NULL, NULL, NULL
            FROM range(150_000) AS t (i);
            INSERT INTO device_work VALUES
                (0, '0', 150_001, 0, 8, 'gpu_memcpy', 'copy', 10, 300_000, 1, 2, NULL),
                (0, '0', 150_002, 0, 9, 'kernel', 'all_reduce', 300_001, 10, 1, 2, NULL);
            """
        )
        sweep_table(connection, spec)
        found = connection.execute(
            "SELECT event_id, kind_wall_ns, wall_ns FROM device_events WHERE event_id > 150_000"
        ).fetchall()
    # The copy owns one of three ns until the collective begins.
    assert found == [(150_001, 300_000, 99_997), (150_002, 10, 3)]


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
    ("name", "given"), [(name, one) for name, many in HOSTILE_GRAPHS.items() for one in many]
)
def test_hostile_graphs(name, given):
    """A sweep rejects the numbers or returns a result, and stays within its memory."""
    columns = [f"c{number}" for number in range(len(given[0]))]
    declared = ", ".join(f"{column}::BIGINT" for column in columns)
    statement = f"SELECT {declared} FROM (VALUES {rows(given)}) AS t({', '.join(columns)})"
    found = []
    with duckdb.connect() as connection:
        refused = (duckdb.InvalidInputException, duckdb.OutOfMemoryException)
        with suppress(*refused), swept(connection, name, statement):
            found = connection.execute(f"FROM {SWEPT}").fetchall()
    assert len(found) <= 100


@pytest.mark.parametrize("bits", [1 << 40, MOST, LEAST, -1, -16])
def test_unknown_markers_are_refused(bits):
    marker = "(NULL::BIGINT, NULL::BIGINT, NULL::BIGINT, 8, 0, 0, 0)"
    span = f"(1, 1, 1, 1, {LEAST}, {MOST}, {bits})"
    with (
        duckdb.connect() as connection,
        pytest.raises(duckdb.Error, match="marker"),
        swept(connection, "contexts", f"FROM (VALUES {marker}, {span}) AS t(a, b, c, d, e, f, g)"),
    ):
        connection.execute(f"FROM {SWEPT}").fetchall()


IDLE_GAP_ROWS = (
    (None, 0, 10, 200_000, 100_000, 5_000, 5, 0, *[None] * 13),
    (0, 1, 1, 1, 100, 110, 1, 32, "forward", "(x)", "0", 0, 7, 1, 10, 5, None, None, 1, 90, 95),
    (0, 1, 1, 1, 900, 910, 2, 32, "forward", "(x)", "0", 0, 7, 2, 11, 5, None, None, 1, 890, 895),
    (0, 2, None, None, 100, 500, 1, None, *[None] * 13),
    (0, 3, 1, 1, 120, 500, 2, 1, *[None] * 13),
    (0, 4, 1, 1, 95, None, None, None, *[None] * 13),
    (0, 5, 1, 1, 100, 890, 20, 33, "forward", "(x)", *[None] * 11),
    (0, 5, 1, 2, 200, 300, 21, 64, *[None] * 13),
    (0, 5, None, None, 300, 400, 22, 448, *[None] * 13),
)
"""A row or two of each section that the walk over idle gaps reads."""


TEXTS = range(8, 11)
"""Which of its columns are texts."""


@pytest.mark.parametrize("number", [LEAST, MOST, -1, None])
def test_hostile_rows_of_idle_gaps(number):
    """For any numbers, the walk returns a few segments or rejects the rows."""
    columns = [f"c{place}" for place in range(21)]
    types = ["VARCHAR" if place in TEXTS else "BIGINT" for place in range(21)]
    picked = ", ".join(f"{one}::{type_}" for one, type_ in zip(columns, types, strict=True))
    refused = (duckdb.InvalidInputException, duckdb.OutOfMemoryException)
    with duckdb.connect() as connection:
        for column in {*range(21)}.difference(TEXTS):
            given = [(*row[:column], number, *row[column + 1 :]) for row in IDLE_GAP_ROWS]
            statement = f"SELECT {picked} FROM (VALUES {rows(given)}) AS t({', '.join(columns)})"
            with suppress(*refused), swept(connection, "idle_gaps", statement):
                assert len(connection.execute(f"FROM {SWEPT}").fetchall()) <= 10
