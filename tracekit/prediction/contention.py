"""Slowdown of kernels that overlap with other work of their device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.graph_sweeps import REPLAY, create_swept
from tracekit.analysis.relations import ensure_named
from tracekit.analysis.run import run_analysis
from tracekit.prediction.edges import EDGES, TABLE, left_ns
from tracekit.sql_text import quote

if TYPE_CHECKING:
    import duckdb

LEAST_COUNT = 10
"""Minimum number of overlapping and of separate kernels for a slope."""

LEAST_COMPARED_PCT = 50.0
"""Minimum share of overlap time that a slope must cover to affect more than the interval."""

_ROUNDS = 2
"""Rounds: slower kernels overlap with more; a third round changes less than 0.1 %."""

_SLOPE, _BEFORE, _AFTER = (f"{TABLE}_{name}" for name in ("slope", "beside_before", "beside"))

# Durations of work in a replay, between its two nodes, include waits for ranks.
_BESIDE = f"""
CREATE OR REPLACE TABLE {{place}} AS
WITH work AS (
    SELECT e.edge_id AS id, (e.trace_id, e.device) AS part, e.work_kind,
        begun.at_ns AS start_ns, ended.at_ns AS end_ns
    FROM {TABLE} AS e
    INNER JOIN {{at}} AS begun ON e.source_node = begun.node
    INNER JOIN {{at}} AS ended ON e.target_node = ended.node
    WHERE e.kind = 'work' AND e.device <> 'cpu'
),
compute AS (FROM work WHERE work_kind = 'compute'),
comm AS (FROM work WHERE work_kind = 'comm'),
shared AS (FROM interval_shared('compute'))
SELECT id AS edge_id, m.overlap_ns AS comm_ns, s.overlap_ns AS compute_ns
FROM interval_overlap('compute', 'comm') AS m
INNER JOIN interval_overlap('compute', 'shared') AS s USING (id)
"""


class Contention:
    """Slowdown of a run's kernels that overlap with other work of their device.

    Args:
        connection: to a store with the recorded edges.
        at: a table for the times of nodes.

    Attributes:
        said: the slopes and their basis; None if the trace has no information.
        is_sure: whether they are reliable enough for the prediction, not only for its interval.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, at: str) -> None:
        self._connection, self._at = connection, at
        self.said: str | None = None
        self.is_sure = False
        several = connection.execute(
            f"SELECT 1 FROM {TABLE} WHERE kind = 'work' AND device <> 'cpu' "
            "GROUP BY trace_id, device HAVING count(DISTINCT stream) > 1 LIMIT 1"
        ).fetchall()
        if not several:
            return
        rows = run_analysis(connection, load_catalog().analysis("contention"), {}).to_dicts()
        rows = [
            row
            for row in rows
            if row["slope_pct"] > 0 and min(row["kernel_count"], row["alone_count"]) >= LEAST_COUNT
        ]
        if not rows:
            return
        values = ", ".join(
            f"({'NULL' if row['rank'] is None else row['rank']}::INTEGER, {quote(row['device'])}, "
            f"{quote(row['concurrent_work'])}, {min(row['slope_pct'] / 100, 1)!r}::DOUBLE)"
            for row in rows
        )
        connection.execute(
            f"CREATE OR REPLACE TABLE {_SLOPE} AS SELECT t.trace_id, s.device, "
            "coalesce(any_value(slope) FILTER (beside = 'comm'), 0) AS comm, "
            "coalesce(any_value(slope) FILTER (beside = 'compute'), 0) AS compute "
            f"FROM (VALUES {values}) AS s(rank, device, beside, slope) "
            "INNER JOIN trace AS t ON t.rank IS NOT DISTINCT FROM s.rank GROUP BY ALL"
        )
        ensure_named(connection, "interval_overlap() interval_shared()")
        self._measure(_BEFORE)
        said, least_pct = [], 100.0
        for beside, what in (("comm", "communication"), ("compute", "another kernel")):
            if found := [row for row in rows if row["concurrent_work"] == beside]:
                extra_ns, overlap_ns, count = (
                    sum(row[name] for row in found)
                    for name in ("extra_ns", "overlap_ns", "kernel_count")
                )
                all_ns = sum(100 * row["overlap_ns"] / row["compared_pct"] for row in found)
                least_pct = min(least_pct, 100 * overlap_ns / all_ns)
                said.append(
                    f"{100 * extra_ns / overlap_ns:.1f} % of the time that {what} overlaps them "
                    f"(from {count} kernels, {100 * overlap_ns / all_ns:.1f} % of that time)"
                )
        self.is_sure = least_pct >= LEAST_COMPARED_PCT
        where = "" if self.is_sure else " (only in the interval)"
        self.said = f"kernels slow down by {', and by '.join(said)}{where}"

    def change(self) -> None:
        """Change kernel durations by the work that overlaps them under a change."""
        kept = f"{left_ns('usual')} / greatest(e.usual_ns, 1)"
        for _ in range(_ROUNDS):
            self._measure(_AFTER)
            self._connection.execute(
                f"UPDATE {TABLE} AS e SET contended_ns = round("
                f"s.comm * (a.comm_ns - coalesce(b.comm_ns, 0) * {kept}) "
                f"+ s.compute * (a.compute_ns - coalesce(b.compute_ns, 0) * {kept}))::BIGINT "
                f"FROM {_AFTER} AS a LEFT JOIN {_BEFORE} AS b USING (edge_id), {_SLOPE} AS s "
                "WHERE e.edge_id = a.edge_id AND (e.trace_id, e.device) = (s.trace_id, s.device)"
            )

    def _measure(self, place: str) -> None:
        create_swept(self._connection, self._at, REPLAY, EDGES)
        self._connection.execute(_BESIDE.format(place=place, at=self._at))
