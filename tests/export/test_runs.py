"""Rows come to the compiled encoders as columns, in runs, and are what tuples of them would be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cases_as_ranks import opened_as_ranks
from traces_by_hand import call, kernel, span

import tracekit
from tracekit.errors import QueryError
from tracekit.export import packets as packets_module
from tracekit.export.encoders import compiled_encoders
from tracekit.export.exporting import export
from tracekit.export.long_numbers import quoted_if_long
from tracekit.export.packets import _COUNTER, PacketWriter
from tracekit.export.perfetto import export_perfetto
from tracekit.export.runs import runs_of
from tracekit.wire import number_field

pytest.importorskip(
    "tracekit.export._encoders",
    reason="the encoders are not compiled: there was no C compiler at installation",
)

SLICES = """
    SELECT if(i < 3000, NULL, 'b') AS key, (i // 2500)::INTEGER AS other, i::BIGINT, 1::BIGINT,
        if(i % 7 = 0, 'ä', 'name ' || i % 5), if(i % 2 = 0, 'c', NULL), if(i % 3 = 0, i, NULL),
        if(i % 4 = 0, '{"n": ' || 9000000000000000000 + i || ', "t": "a\\nb"}', '{}'),
        NULL, if(i % 5 = 0, '{"f": 1}', NULL), if(i % 6 = 0, [i, -i], NULL), i % 9 = 0
    FROM range(1, 6001) AS t (i) ORDER BY i
"""


def events() -> list[dict[str, Any]]:
    """Return ops that launch kernels, which overlap, with names and numbers that are odd."""
    found = [span("cpu_op", "before all", -50, -40), span("cpu_op", "huge", 300, 310, big=2**70)]
    for number, name in enumerate(('"quoted" \\back', "", "\U0001f600", "lone \ud800", "a\0b")):
        found.append(span("cpu_op", name, 10 * number, 10 * number + 5, **{name: name}))
        found.append(call(500 + number, 500.5 + number, number + 1))
        found.append(kernel(name or "k", 600 + 3 * number, 606 + 3 * number, number + 1))
    return [*found, {"ph": "i", "name": "mark", "s": "t", "pid": 1, "tid": 1, "ts": 701}]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tracekit.Trace]:
    """Return one trace for all tests here: what they ask leaves it as it was."""
    folder = tmp_path_factory.mktemp("runs")
    with opened_as_ranks(folder, [events()]) as opened:
        yield opened


def packets(blocks: list[bytes]) -> Any:
    return PacketWriter(blocks.append)


def write_slices(writer: Any, runs: Any) -> None:
    """Write the slices of runs with one column before them, each run on a track of its own."""
    for _, rows in runs:
        writer.slices(writer.track("t", 0, 1), rows, 1)


def test_columns_are_written_as_tuples_are(trace: tracekit.Trace) -> None:
    """Runs go on from one batch of 2,048 rows to the next, and end where a key changes."""
    found = []
    for is_columns in (True, False):
        blocks: list[bytes] = []
        writer = packets(blocks)
        keys = []
        for key, rows in runs_of(trace, [SLICES, SLICES], 2, is_columns=is_columns):
            track = writer.track(str(key), 0, 1)
            keys.append((key, writer.slices(track, rows, 2)))
            writer.finish(track)
        writer.flush()
        found.append((keys, b"".join(blocks)))
    assert found[0] == found[1]
    counts = [((None, 0), 2_499), ((None, 1), 500), (("b", 1), 2_000), (("b", 2), 1_001)]
    assert found[0][0] == 2 * counts


def test_values_and_runs_that_nobody_takes(trace: tracekit.Trace) -> None:
    asked = "SELECT i // 4 AS key, i AS at_ns, i / 3 AS value FROM range(12) AS t (i) ORDER BY i"
    found = []
    for is_columns in (True, False):
        blocks: list[bytes] = []
        writer = packets(blocks)
        for (key,), rows in runs_of(trace, [asked], 1, is_columns=is_columns):
            if key != 1:
                writer.values(writer.counter(f"n{key}", 0, 1, ""), rows, 1)
        writer.flush()
        found.append(b"".join(blocks))
    assert found[0] == found[1]
    assert found[0].count(number_field(9, _COUNTER)) == 8


def test_an_export_of_columns_is_that_of_tuples(trace: tracekit.Trace) -> None:
    found = []
    for takes_columns in (True, False):
        blocks: list[bytes] = []
        writer = packets(blocks)
        assert writer.takes_columns
        writer.takes_columns = takes_columns
        done = export(trace, lambda _, writer=writer: writer, None, args=True)
        found.append((b"".join(blocks), done))
    assert found[0] == found[1]


def test_what_stops_in_the_middle_leaves_the_trace_to_others(trace: tracekit.Trace) -> None:
    endless = "SELECT 1 AS key, i AS start_ns, 1::BIGINT, 'n' FROM range(1000000000000) AS t (i)"
    before = threading.active_count()

    def full(block: bytes) -> None:
        raise OSError("full")

    writer = PacketWriter(full)
    runs = runs_of(trace, [endless], 1, is_columns=True)
    with pytest.raises(OSError, match="full"):
        write_slices(writer, runs)
    runs.close()
    assert threading.active_count() == before
    assert trace.sql("SELECT 1").rows == [(1,)]


def test_an_export_that_cannot_be_written_leaves_nothing_behind(trace: tracekit.Trace) -> None:
    def full(block: bytes) -> None:
        raise OSError("full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packets_module, "BLOCK_BYTES", 1_500)
        with pytest.raises(OSError, match="full"):
            export_perfetto(trace, full)
    left = "SELECT count(*) FROM duckdb_tables() WHERE temporary AND table_name LIKE 'export%'"
    assert trace.sql(left).rows == [(0,)]
    done = export_perfetto(trace, len)
    assert done.event_count == trace.sql("SELECT count(*) FROM event").rows[0][0]


def test_a_statement_that_fails_on_the_way_is_told(trace: tracekit.Trace) -> None:
    late = (
        "SELECT 1 AS key, i AS start_ns, 1::BIGINT, if(i > 900000, error('too late'), 'n') "
        "FROM range(1000000) AS t (i)"
    )
    for statement, said in ((late, "too late"), ("SELECT no_such_column", "no_such_column")):
        with pytest.raises(QueryError, match=said):
            write_slices(packets([]), runs_of(trace, [statement], 1, is_columns=True))
        assert trace.sql("SELECT 1").rows == [(1,)]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ("1, 2::HUGEINT, 1, 'n'", TypeError),
        ("1, 2, 1, 3", TypeError),
        ("1, 2, NULL, 'n'", ValueError),
        ("1, 2, 3", ValueError),
        ("1.5, 2, 3, 'n'", TypeError),
        ("1, 2, 3, 'n', 4", TypeError),
        ("1, 2, 3, 'n', NULL, NULL, NULL, NULL, NULL, 'x'", TypeError),
        (", ".join(["1"] * 21), ValueError),
    ],
)
def test_columns_that_are_no_slice_are_refused(
    trace: tracekit.Trace, columns: str, error: type[Exception]
) -> None:
    runs = runs_of(trace, [f"SELECT {columns}"], 1, is_columns=True)
    with pytest.raises(error):
        write_slices(packets([]), runs)
    runs.close()
    assert trace.sql("SELECT 1").rows == [(1,)]


def test_a_stream_is_read_once(trace: tracekit.Trace) -> None:
    encoders = compiled_encoders()
    capsule = trace.stream_arrow("SELECT 1 AS key").__arrow_c_stream__()
    assert len([*encoders.Batches(capsule, ValueError)]) == 1
    with pytest.raises(ValueError, match="already"):
        encoders.Batches(capsule, ValueError)
    with pytest.raises(ValueError, match="invalid PyCapsule"):
        encoders.Batches(object(), ValueError)
    with pytest.raises(TypeError, match="no batch"):
        encoders.Runs([object()]).next(1)
    assert encoders.Runs([]).next(1) is None
    capsule = trace.stream_arrow("SELECT 1 AS key").__arrow_c_stream__()
    runs = encoders.Runs(encoders.Batches(capsule, ValueError))
    with pytest.raises(ValueError, match="no so many"):
        runs.next(2)


def test_others_read_the_stream_too(trace: tracekit.Trace) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    rows = trace.stream_arrow("SELECT event_id, name FROM event ORDER BY event_id")
    table = pyarrow.RecordBatchReader.from_stream(rows).read_all()
    assert table["event_id"].to_pylist() == [
        row[0] for row in trace.sql("SELECT event_id FROM event ORDER BY event_id").rows
    ]


def test_digits_in_a_row_become_text() -> None:
    texts = [
        before + "7" * digits + behind + "8" * more + ' "\\\u0001\n'
        for before in ("", "1 ", "x" * 17, "ü" * 10)
        for behind in ("", "a", "1a2", " " * 18, " " * 19)
        for digits in (0, 1, 17, 18, 19, 20, 40)
        for more in (0, 18, 19)
    ]
    rows = [(at, 1, "n", None, None, text, text) for at, text in enumerate(texts)]
    found = []
    for is_compiled in (True, False):
        blocks: list[bytes] = []
        writer = PacketWriter(blocks.append, is_compiled=is_compiled)
        writer.slices(writer.track("t", 0, 1), rows, 0)
        writer.flush()
        found.append(b"".join(blocks))
    assert found[0] == found[1]
    assert quoted_if_long('{"a": 1234567890123456789}') == '"{\\"a\\": 1234567890123456789}"'
    assert quoted_if_long('{"a": 123456789012345678}') == '{"a": 123456789012345678}'
