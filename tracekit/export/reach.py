"""How far outside of a piece of time one has to look, so that what is inside is as in the whole.

Stretches of a kind, a phase or a module may begin before the piece and end behind it. Nothing runs
in a gap of a device: what begins behind one needs nothing from before it.
"""

from __future__ import annotations

ALWAYS = 1 << 62
"""Later than any time of a trace, ns."""

REACH = f"""
    WITH gap AS (
        SELECT trace_id, device, start_ns, end_ns FROM device_gaps WHERE trace_id IN (TRACE_IDS)
    ),
    -- A gap more than needed: the stretch between the two is what stands before the piece.
    near AS (
        SELECT d.trace_id, d.device,
            coalesce(
                (max(g.start_ns, 2) FILTER (g.start_ns <= d.from_ns))[2], -{ALWAYS}
            ) AS near_from,
            coalesce((min(g.end_ns, 2) FILTER (g.end_ns >= d.to_ns))[2], {ALWAYS}) AS near_to
        FROM (
            SELECT DISTINCT e.trace_id, e.device, chosen.from_ns, chosen.to_ns
            FROM device_events AS e INNER JOIN CHOSEN ON e.trace_id = chosen.trace_id
        ) AS d
        LEFT JOIN gap AS g ON d.trace_id = g.trace_id AND d.device = g.device
        GROUP BY d.trace_id, d.device
    ),
    root AS (
        SELECT m.trace_id, m.module_id, r.module_id AS root_id
        FROM module AS m
        ASOF JOIN (FROM module WHERE depth = 0) AS r
            ON m.trace_id = r.trace_id AND m.position >= r.position
    ),
    -- Where the outermost module changes, all inside of it end.
    placed AS (
        SELECT a.trace_id, a.device, a.ts_ns, a.end_ns, a.wall_ns, a.phase,
            hash(a.phase, r.root_id, a.row_name) AS label, n.near_from, n.near_to,
            a.ts_ns >= n.near_from AND a.ts_ns < n.near_to AS is_near
        FROM attributed_events AS a
        INNER JOIN near AS n ON a.trace_id = n.trace_id AND a.device = n.device
        LEFT JOIN root AS r ON a.trace_id = r.trace_id AND a.module_id = r.module_id
    ),
    edge AS (
        SELECT trace_id, device, min(ts_ns) AS first_ns, max(end_ns) AS last_ns
        FROM placed WHERE is_near GROUP BY trace_id, device
    ),
    -- What the first and the last stretch inside may be of: at one moment several may begin.
    edge_label AS (
        SELECT p.trace_id, p.device,
            list(DISTINCT p.phase) FILTER (p.ts_ns = e.first_ns) AS first_phases,
            list(DISTINCT p.label) FILTER (p.ts_ns = e.first_ns) AS first_labels,
            list(DISTINCT p.phase) FILTER (p.end_ns = e.last_ns) AS last_phases,
            list(DISTINCT p.label) FILTER (p.end_ns = e.last_ns) AS last_labels
        FROM placed AS p
        INNER JOIN edge AS e ON p.trace_id = e.trace_id AND p.device = e.device
        WHERE p.is_near GROUP BY p.trace_id, p.device
    ),
    -- The next work on either side that has time of its own and is of something else.
    other AS (
        SELECT p.trace_id, p.device,
            max(p.ts_ns) FILTER (is_before AND NOT list_contains(first_phases, phase))
                AS phase_from,
            max(p.ts_ns) FILTER (is_before AND NOT list_contains(first_labels, label))
                AS module_from,
            min(p.ts_ns) FILTER (is_behind AND NOT list_contains(last_phases, phase)) AS phase_to,
            min(p.ts_ns) FILTER (is_behind AND NOT list_contains(last_labels, label)) AS module_to
        FROM (
            SELECT *, ts_ns < near_from AS is_before, ts_ns >= near_to AS is_behind
            FROM placed WHERE wall_ns > 0 AND NOT is_near
        ) AS p
        INNER JOIN edge_label AS e ON p.trace_id = e.trace_id AND p.device = e.device
        GROUP BY p.trace_id, p.device
    )
    SELECT n.trace_id, n.device, n.near_from, n.near_to,
        coalesce(max(g.start_ns) FILTER (g.start_ns <= o.module_from), -{ALWAYS}) AS module_from,
        coalesce(min(g.end_ns) FILTER (g.end_ns > o.module_to), {ALWAYS}) AS module_to,
        coalesce(max(g.start_ns) FILTER (g.start_ns <= o.phase_from), -{ALWAYS}) AS phase_from,
        coalesce(min(g.end_ns) FILTER (g.end_ns > o.phase_to), {ALWAYS}) AS phase_to
    FROM near AS n
    LEFT JOIN other AS o ON n.trace_id = o.trace_id AND n.device = o.device
    LEFT JOIN gap AS g ON n.trace_id = g.trace_id AND n.device = g.device
    GROUP BY n.trace_id, n.device, n.near_from, n.near_to
"""
"""Of each device, the times of starts of device events, ns of its trace, that are asked: near for
its kinds and rates, of modules for these, of phases for these; each is inside of the next."""
