"""What several analyses of a run read is made once, and nothing of it stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_of_ranks import write_ranks

import tracekit
from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.macros import provide_macros, rows_kept
from tracekit.analysis.run import run_analysis
from tracekit.errors import QueryError

SPECS = [load_catalog().analysis(name) for name in ("rank_waits", "waits")]


def test_matches_of_collectives_are_made_once_and_go(tmp_path: Path) -> None:
    with tracekit.open(*write_ranks(tmp_path), cache=False) as trace:
        expected = [run_analysis(trace.connection, spec, {}) for spec in SPECS]
        matches = trace.sql("FROM collective_matches() ORDER BY trace_id, event_id")
        with rows_kept(trace.connection, SPECS):
            kept = trace.connection.execute("FROM session.collective_matches_kept").fetchall()
            assert sorted(kept) == sorted(matches.rows)
            cursor = trace.connection.cursor()
            provide_macros(cursor, SPECS[0])
            cursor.execute("DELETE FROM session.collective_matches_kept")
            assert cursor.execute("FROM collective_matches()").fetchall() == []
            assert run_analysis(cursor, SPECS[1], {}).rows == []
        with pytest.raises(QueryError, match="does not exist"):
            trace.sql("FROM session.collective_matches_kept")
        assert trace.sql("FROM collective_matches() ORDER BY trace_id, event_id") == matches
        assert [run_analysis(trace.connection, spec, {}) for spec in SPECS] == expected


def test_what_one_analysis_alone_reads_is_not_made(tmp_path: Path) -> None:
    with (
        tracekit.open(*write_ranks(tmp_path), cache=False) as trace,
        rows_kept(trace.connection, SPECS[:1]),
        pytest.raises(QueryError, match="does not exist"),
    ):
        trace.sql("FROM session.main.collective_matches_kept")
