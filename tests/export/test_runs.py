"""Rows of statements are written in runs per track; a failure leaves no output."""

from unittest.mock import Mock

import pytest

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


def write_slices(writer, runs):
    """Write the slices of runs, which have one leading column, with one track per run."""
    for _, rows in runs:
        writer.slices(writer.track("t", 0, 1), rows, 1)


def test_a_run_ends_where_a_key_changes(of_hostile):
    """Runs go on from one batch of 2,048 rows to the next."""
    writer = PacketWriter(lambda _: None)
    found = []
    for key, rows in runs_of(of_hostile, [SLICES, SLICES], 2):
        track = writer.track(str(key), 0, 1)
        found.append((key, writer.slices(track, rows, 2)))
        writer.finish(track)
    counts = [((None, 0), 2_499), ((None, 1), 500), (("b", 1), 2_000), (("b", 2), 1_001)]
    assert found == 2 * counts


def test_unread_rows_do_not_block_the_next_run(of_hostile):
    rows_sql = "SELECT i // 4 AS key, i AS at_ns, i / 3 AS value FROM range(12) AS t (i) ORDER BY i"
    blocks = []
    writer = PacketWriter(blocks.append)
    for (key,), rows in runs_of(of_hostile, [rows_sql], 1):
        if key != 1:
            writer.values(writer.counter(f"n{key}", 0, 1, ""), rows, 1)
    writer.close()
    assert b"".join(blocks).count(number_field(9, _COUNTER)) == 8


def test_a_reader_that_stops_midway_does_not_block_others(of_hostile):
    endless = "SELECT 1 AS key, i AS start_ns, 1::BIGINT, 'n' FROM range(1000000000000) AS t (i)"
    writer = PacketWriter(Mock(side_effect=OSError("full")))
    runs = runs_of(of_hostile, [endless], 1)
    with pytest.raises(OSError, match="full"):
        write_slices(writer, runs)
    runs.close()
    assert of_hostile.sql("SELECT 1").rows == [(1,)]


def test_an_export_that_cannot_be_written_leaves_nothing_behind(of_hostile):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packets, "BLOCK_BYTES", 1_500)
        with pytest.raises(OSError, match="full"):
            export_perfetto(of_hostile, Mock(side_effect=OSError("full")))
    left = "SELECT count(*) FROM duckdb_tables() WHERE temporary AND table_name LIKE 'export%'"
    assert of_hostile.sql(left).rows == [(0,)]
    done = export_perfetto(of_hostile, len)
    assert done.event_count == of_hostile.sql("SELECT count(*) FROM event").rows[0][0]


@pytest.mark.nightly("fails at each statement")
def test_a_statement_that_fails_midway_is_reported(of_hostile):
    late = (
        "SELECT 1 AS key, i AS start_ns, 1::BIGINT, if(i > 90000, error('too late'), 'n') "
        "FROM range(100000) AS t (i)"
    )
    for statement, message in ((late, "too late"), ("SELECT no_such_column", "no_such_column")):
        with pytest.raises(QueryError, match=message):
            write_slices(PacketWriter(len), runs_of(of_hostile, [statement], 1))
        assert of_hostile.sql("SELECT 1").rows == [(1,)]


def test_others_read_the_stream_too(of_hostile):
    pyarrow = pytest.importorskip("pyarrow")
    rows = of_hostile.stream_arrow("SELECT event_id, name FROM event ORDER BY event_id")
    table = pyarrow.RecordBatchReader.from_stream(rows).read_all()
    assert table["event_id"].to_pylist() == [
        row[0] for row in of_hostile.sql("SELECT event_id FROM event ORDER BY event_id").rows
    ]
