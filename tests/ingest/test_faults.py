"""What is wrong with a file is counted whole, and kept up to a number of each sort."""

from __future__ import annotations

from pathlib import Path

import tracekit
from tracekit.ingest.faults import KEPT_FAULTS, Faults

WHOLE = '{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":1}'
WITHOUT_START = '{"ph":"X","name":"a","dur":2}'


def test_the_first_ones_of_each_sort_are_kept_and_all_are_counted() -> None:
    faults = Faults()
    for number in range(KEPT_FAULTS + 2):
        faults.reject(number, "no ts", b"{}")
    for number in range(KEPT_FAULTS + 3):
        faults.repair(number, 0, "a quote")
    assert (faults.rejected_count, faults.repaired_count) == (KEPT_FAULTS + 2, KEPT_FAULTS + 3)
    assert [row.byte_offset for row in faults.rejected] == [*range(KEPT_FAULTS)]
    assert [row.event_id for row in faults.repaired] == [*range(KEPT_FAULTS)]


def test_a_store_tells_all_and_shows_the_first_ones(tmp_path: Path) -> None:
    count = KEPT_FAULTS + 5
    path = tmp_path / "rank0.json"
    path.write_text('{"traceEvents":[' + ",".join([WHOLE, *[WITHOUT_START] * count]) + "]}")
    with tracekit.open(path, cache=False) as trace:
        assert trace.sql("SELECT event_count, rejected_count FROM trace").rows == [(1, count)]
        kept = "SELECT count(*), min(event_id), max(event_id) FROM rejected"
        assert trace.sql(kept).rows == [(KEPT_FAULTS, 1, KEPT_FAULTS)]
        health = {row["metric"]: row["value"] for row in trace.health().to_dicts()}
    assert health["rejected"] == count
