"""Slowdown of kernels that overlap with other work on the same device."""

from __future__ import annotations

from tracekit.analysis.catalog import load_catalog
from tracekit.analysis.graph_sweeps import REPLAY, create_swept
from tracekit.analysis.relations import ensure_named
from tracekit.analysis.run import run_analysis
from tracekit.prediction.edges import EDGES, Edges, left_ns
from tracekit.sql_text import select_rows

LEAST_COUNT = 10
"""Minimum number of overlapping kernels, and of separate kernels, for a slope."""

LEAST_COMPARED_PCT = 50.0
"""Minimum share of overlap time that slopes must cover to affect more than the interval."""

_ROUNDS = 2
"""Number of iterations, because slower kernels overlap with more work. A third iteration changes
less than 0.1 %."""

# The replayed duration of work, between its two nodes, includes waits for other ranks.
_BESIDE = """
WITH work AS (
    SELECT e.edge_id AS id, (e.trace_id, e.device) AS part, e.work_kind,
        begun.at_ns AS start_ns, ended.at_ns AS end_ns
    FROM changed_edge AS e
    INNER JOIN {at} AS begun ON e.source_node = begun.node
    INNER JOIN {at} AS ended ON e.target_node = ended.node
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
    """Slowdown of a run's kernels that overlap with other work on the same device.

    `at` is the name of the table for the times of nodes. `summary` describes the slopes; None if
    the trace has no information. `is_sure` is whether they affect the prediction, not only its
    interval.
    """

    def __init__(self, edges: Edges, at: str) -> None:
        self._edges, self._at = edges, at
        self.summary: str | None = None
        self.is_sure = False
        if not edges.run(
            "SELECT 1 FROM changed_edge WHERE kind = 'work' AND device <> 'cpu' "
            "GROUP BY trace_id, device HAVING count(DISTINCT stream) > 1 LIMIT 1"
        ):
            return
        contention = load_catalog().analysis("contention")
        rows = [
            row
            for row in run_analysis(edges.connection, contention, {}).to_dicts()
            if row["slope_pct"] > 0 and min(row["kernel_count"], row["alone_count"]) >= LEAST_COUNT
        ]
        if not rows:
            return
        types = {"rank": "INTEGER", "device": "VARCHAR", "beside": "VARCHAR", "slope": "DOUBLE"}
        slopes = [
            (row["rank"], row["device"], row["concurrent_work"], min(row["slope_pct"] / 100, 1.0))
            for row in rows
        ]
        edges.create(
            "changed_slope",
            "SELECT t.trace_id, s.device, "
            "coalesce(any_value(slope) FILTER (beside = 'comm'), 0) AS comm, "
            "coalesce(any_value(slope) FILTER (beside = 'compute'), 0) AS compute "
            f"FROM ({select_rows(types, slopes)}) AS s "
            "INNER JOIN trace AS t ON t.rank IS NOT DISTINCT FROM s.rank GROUP BY ALL",
        )
        ensure_named(edges.connection, "interval_overlap() interval_shared()")
        self._measure("changed_beside_before")
        parts, least_pct = [], 100.0
        for beside, what in (("comm", "communication"), ("compute", "another kernel")):
            if result := [row for row in rows if row["concurrent_work"] == beside]:
                extra_ns, overlap_ns, count = (
                    sum(row[name] for row in result)
                    for name in ("extra_ns", "overlap_ns", "kernel_count")
                )
                all_ns = sum(100 * row["overlap_ns"] / row["compared_pct"] for row in result)
                least_pct = min(least_pct, 100 * overlap_ns / all_ns)
                parts.append(
                    f"{100 * extra_ns / overlap_ns:.1f} % of the time that {what} overlaps them "
                    f"(from {count} kernels, {100 * overlap_ns / all_ns:.1f} % of that time)"
                )
        self.is_sure = least_pct >= LEAST_COMPARED_PCT
        where = "" if self.is_sure else " (only in the interval)"
        self.summary = f"kernels slow down by {', and by '.join(parts)}{where}"

    def change(self) -> None:
        remaining = f"{left_ns('usual')} / greatest(e.usual_ns, 1)"
        for _ in range(_ROUNDS):
            self._measure("changed_beside")
            self._edges.update(
                "contended_ns = round("
                f"s.comm * (a.comm_ns - coalesce(b.comm_ns, 0) * {remaining}) "
                f"+ s.compute * (a.compute_ns - coalesce(b.compute_ns, 0) * {remaining}))::BIGINT",
                "e.edge_id = a.edge_id AND (e.trace_id, e.device) = (s.trace_id, s.device)",
                "changed_beside AS a LEFT JOIN changed_beside_before AS b USING (edge_id), "
                "changed_slope AS s",
            )

    def _measure(self, name: str) -> None:
        create_swept(self._edges.connection, self._at, REPLAY, EDGES)
        self._edges.create(name, _BESIDE.format(at=self._at))
