"""Rows of statements are written in runs per track; a failure leaves no output."""

import pytest
from cases_as_ranks import opened_as_ranks
from traces_by_hand import call, kernel, span

from tracekit.errors import QueryError
from tracekit.export import packets
from tracekit.export.packets import _COUNTER, PacketWriter
from tracekit.export.perfetto import export_perfetto, runs_of
from tracekit.wire import number_field

SLICES = """
    SELECT if(i < 3000, NULL, 'b') AS key, (i // 2500)::INTEGER AS other, i::BIGINT, 1::BIGINT,
        if(i % 7 = 0, 'ä', 'name ' || i % 5), if(i % 2 = 0, 'c', NULL), if(i % 3 = 0, i, NULL),
        if(i % 4 = 0, '{"n": ' || 9000000000000000000 + i || ', "t": "a\\nb"}', '{}'),
        NULL, if(i % 5 = 0, '{"f": 1}', NULL), if(i % 6 = 0, [i, -i], NULL), i % 9 = 0
    FROM range(1, 6001) AS t (i) ORDER BY i
"""


def events():
    """Return ops that launch kernels, which overlap, with names and numbers that are odd."""
    found = [span("cpu_op", "before all", -50, -40), span("cpu_op", "huge", 300, 310, big=2**70)]
    for number, name in enumerate(('"quoted" \\back', "", "\U0001f600", "lone \ud800", "a\0b")):
        found.append(span("cpu_op", name, 10 * number, 10 * number + 5, **{name: name}))
        found.append(call(500 + number, 500.5 + number, number + 1))
        found.append(kernel(name or "k", 600 + 3 * number, 606 + 3 * number, number + 1))
    return [*found, {"ph": "i", "name": "mark", "s": "t", "pid": 1, "tid": 1, "ts": 701}]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Return one trace for all tests, because queries do not change it."""
    folder = tmp_path_factory.mktemp("runs")
    with opened_as_ranks(folder, [events()]) as opened:
        yield opened


def write_slices(writer, runs):
    """Write the slices of runs, which have one leading column, with one track per run."""
    for _, rows in runs:
        writer.slices(writer.track("t", 0, 1), rows, 1)


def test_a_run_ends_where_a_key_changes(trace):
    """Runs go on from one batch of 2,048 rows to the next."""
    writer = PacketWriter(lambda _: None)
    found = []
    for key, rows in runs_of(trace, [SLICES, SLICES], 2):
        track = writer.track(str(key), 0, 1)
        found.append((key, writer.slices(track, rows, 2)))
        writer.finish(track)
    counts = [((None, 0), 2_499), ((None, 1), 500), (("b", 1), 2_000), (("b", 2), 1_001)]
    assert found == 2 * counts


def test_unread_rows_do_not_block_the_next_run(trace):
    rows_sql = "SELECT i // 4 AS key, i AS at_ns, i / 3 AS value FROM range(12) AS t (i) ORDER BY i"
    blocks = []
    writer = PacketWriter(blocks.append)
    for (key,), rows in runs_of(trace, [rows_sql], 1):
        if key != 1:
            writer.values(writer.counter(f"n{key}", 0, 1, ""), rows, 1)
    writer.close()
    assert b"".join(blocks).count(number_field(9, _COUNTER)) == 8


def test_a_reader_that_stops_midway_does_not_block_others(trace):
    endless = "SELECT 1 AS key, i AS start_ns, 1::BIGINT, 'n' FROM range(1000000000000) AS t (i)"

    def full(block):
        raise OSError("full")

    writer = PacketWriter(full)
    runs = runs_of(trace, [endless], 1)
    with pytest.raises(OSError, match="full"):
        write_slices(writer, runs)
    runs.close()
    assert trace.sql("SELECT 1").rows == [(1,)]


def test_an_export_that_cannot_be_written_leaves_nothing_behind(trace):
    def full(block):
        raise OSError("full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packets, "BLOCK_BYTES", 1_500)
        with pytest.raises(OSError, match="full"):
            export_perfetto(trace, full)
    left = "SELECT count(*) FROM duckdb_tables() WHERE temporary AND table_name LIKE 'export%'"
    assert trace.sql(left).rows == [(0,)]
    done = export_perfetto(trace, len)
    assert done.event_count == trace.sql("SELECT count(*) FROM event").rows[0][0]


@pytest.mark.nightly("fails at each statement")
def test_a_statement_that_fails_midway_is_reported(trace):
    late = (
        "SELECT 1 AS key, i AS start_ns, 1::BIGINT, if(i > 90000, error('too late'), 'n') "
        "FROM range(100000) AS t (i)"
    )
    for statement, message in ((late, "too late"), ("SELECT no_such_column", "no_such_column")):
        with pytest.raises(QueryError, match=message):
            write_slices(PacketWriter(len), runs_of(trace, [statement], 1))
        assert trace.sql("SELECT 1").rows == [(1,)]


def test_others_read_the_stream_too(trace):
    pyarrow = pytest.importorskip("pyarrow")
    rows = trace.stream_arrow("SELECT event_id, name FROM event ORDER BY event_id")
    table = pyarrow.RecordBatchReader.from_stream(rows).read_all()
    assert table["event_id"].to_pylist() == [
        row[0] for row in trace.sql("SELECT event_id FROM event ORDER BY event_id").rows
    ]
