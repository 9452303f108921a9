"""The temporary tables and views of an export: of all of the time, and of a piece of it.

A statement here begins with what it makes. TRACE_IDS and CHOSEN are the traces that are exported,
FROM_NS and TO_NS the widest piece of their times, and NEAR_FROM and the like the widest reach.
"""

from __future__ import annotations

OF_ALL = {
    "export_near": "VIEW FROM attributed_events WHERE trace_id IN (TRACE_IDS)",
    "export_module_work": "VIEW FROM export_near",
    "export_phase_work": "VIEW FROM export_near",
    "export_wall": "TABLE FROM wall_intervals('export_near')",
    "export_near_wall": "VIEW FROM export_wall",
    "export_module_wall": "VIEW FROM export_wall",
    "export_op": """VIEW
        SELECT trace_id, event_id AS op_id, name, args, pid, tid, ts_ns, ts_ns + dur_ns AS end_ns
        FROM event
        WHERE trace_id IN (TRACE_IDS)
            AND (trace_id, event_id) IN (SELECT (trace_id, op_id) FROM attribution)
    """,
    "export_rate": "TABLE FROM op_rates('export_near', 'export_op')",
    # Facts and ends of arrows beside the start of their event: so those of a block are found.
    "export_fact": """TABLE
        SELECT f.*, e.ts_ns
        FROM (SELECT trace_id, event_id, ts_ns FROM event) AS e
        INNER JOIN event_facts('export_near', 'export_rate') AS f
            ON e.trace_id = f.trace_id AND e.event_id = f.event_id
    """,
    "export_idle": "VIEW FROM idle_gap WHERE trace_id IN (TRACE_IDS)",
    "export_gap": "TABLE FROM gap_intervals('export_idle')",
    "export_flow": "VIEW FROM record WHERE view_name = 'flow' AND trace_id IN (TRACE_IDS)",
    "export_link": "VIEW FROM attribution WHERE trace_id IN (TRACE_IDS)",
    "export_node": "VIEW FROM surroundings WHERE trace_id IN (TRACE_IDS)",
    "export_arrow": """TABLE
        SELECT trace_id, from_id, to_id, TRUE AS is_inside,
            row_number() OVER (ORDER BY trace_id, from_id, to_id) AS number
        FROM event_arrows('export_flow', 'export_link', 'export_node')
    """,
    "export_arrow_end": """TABLE
        SELECT a.*, e.ts_ns
        FROM (SELECT trace_id, event_id, ts_ns FROM event) AS e
        INNER JOIN (
            SELECT trace_id, from_id AS event_id, number FROM export_arrow WHERE is_inside
            UNION ALL
            SELECT trace_id, to_id, -number FROM export_arrow WHERE is_inside
        ) AS a ON e.trace_id = a.trace_id AND e.event_id = a.event_id
    """,
    "export_queue": "TABLE FROM queued_events() WHERE part.trace_id IN (TRACE_IDS)",
    "export_before": """TABLE
        SELECT NULL::INTEGER AS trace_id, NULL::VARCHAR AS device, 0 AS exposed_ns LIMIT 0
    """,
    "export_collective": "TABLE FROM collective_intervals() WHERE trace_id IN (TRACE_IDS)",
}
"""Temporary tables and views by name, in the order in which they are made."""

_WITHIN = """
    SEMI JOIN export_reach AS r ON a.trace_id = r.trace_id AND a.device = r.device
        AND a.TIME >= r.WHICH_from AND a.TIME < r.WHICH_to
"""


def _work(which: str) -> str:
    within = _WITHIN.replace("WHICH", which).replace("TIME", "ts_ns")
    bounds = f"a.ts_ns >= {which.upper()}_FROM AND a.ts_ns < {which.upper()}_TO"
    return f"VIEW FROM attributed_events AS a {within} WHERE a.trace_id IN (TRACE_IDS) AND {bounds}"


def _walls(which: str) -> str:
    within = _WITHIN.replace("WHICH", which).replace("TIME", "start_ns")
    return f"VIEW FROM export_wall AS a {within}"


OF_PIECE = {
    "export_near": _work("near"),
    "export_module_work": _work("module"),
    "export_phase_work": _work("phase"),
    "export_wall": "TABLE FROM wall_intervals('export_phase_work')",
    "export_near_wall": _walls("near"),
    "export_module_wall": _walls("module"),
    # The events that are written, and those that what is written needs to know of.
    "export_chosen": """TABLE
        SELECT e.trace_id, e.event_id, e.pid, e.tid, e.ts_ns
        FROM event AS e
        INNER JOIN CHOSEN ON e.trace_id = chosen.trace_id
        WHERE e.trace_id IN (TRACE_IDS) AND e.ts_ns < TO_NS AND e.ts_ns + e.dur_ns >= FROM_NS
            AND e.ts_ns < chosen.to_ns AND e.ts_ns + e.dur_ns >= chosen.from_ns
    """,
    "export_known": """TABLE
        SELECT trace_id, event_id, min(ts_ns) AS ts_ns FROM (
            SELECT trace_id, event_id, ts_ns FROM export_chosen
            UNION ALL
            SELECT trace_id, event_id, ts_ns FROM export_near
        ) GROUP BY trace_id, event_id
    """,
    "export_known_work": """VIEW
        FROM attributed_events AS a
        SEMI JOIN export_known AS k ON a.trace_id = k.trace_id AND a.event_id = k.event_id
        WHERE a.trace_id IN (TRACE_IDS)
    """,
    "export_op_id": """TABLE
        SELECT e.trace_id, e.event_id AS op_id, e.ts_ns, e.ts_ns + e.dur_ns AS end_ns
        FROM event AS e
        SEMI JOIN export_known_work AS k ON e.trace_id = k.trace_id AND e.event_id = k.op_id
    """,
    "export_op_work": """VIEW
        FROM attributed_events AS a
        SEMI JOIN export_op_id AS o ON a.trace_id = o.trace_id AND a.op_id = o.op_id
        WHERE a.trace_id IN (TRACE_IDS)
    """,
    # What an op is made of is found among those that begin within it.
    "export_op": f"""VIEW
        {OF_ALL["export_op"].removeprefix("VIEW")}
            AND ts_ns >= (SELECT min(ts_ns) FROM export_op_id)
            AND ts_ns < (SELECT max(end_ns) FROM export_op_id)
    """,
    "export_rate": "TABLE FROM op_rates('export_op_work', 'export_op')",
    "export_fact": """TABLE
        SELECT f.*, k.ts_ns
        FROM event_facts('export_known_work', 'export_rate') AS f
        INNER JOIN export_known AS k ON f.trace_id = k.trace_id AND f.event_id = k.event_id
    """,
    "export_idle": """VIEW
        SELECT g.* FROM idle_gap AS g
        INNER JOIN CHOSEN ON g.trace_id = chosen.trace_id
        WHERE g.trace_id IN (TRACE_IDS) AND g.start_ns < TO_NS AND g.end_ns >= FROM_NS
            AND g.start_ns < chosen.to_ns AND g.end_ns >= chosen.from_ns
    """,
    "export_gap": OF_ALL["export_gap"],
    # All ends of the arrows of which one may be at an event that is written.
    "export_flow": """TABLE
        FROM record
        WHERE view_name = 'flow' AND trace_id IN (TRACE_IDS) AND hash(trace_id, category, id) IN (
            SELECT hash(f.trace_id, f.category, f.id)
            FROM record AS f
            INNER JOIN CHOSEN ON f.trace_id = chosen.trace_id
            WHERE f.view_name = 'flow' AND f.trace_id IN (TRACE_IDS) AND (
                f.ts_ns >= chosen.from_ns AND f.ts_ns < chosen.to_ns
                OR (f.trace_id, f.pid, f.tid, f.ts_ns) IN (
                    SELECT (trace_id, pid, tid, ts_ns) FROM export_chosen
                )
            )
        )
    """,
    "export_link": """VIEW
        FROM attribution
        WHERE trace_id IN (TRACE_IDS) AND (
            (trace_id, event_id) IN (INSIDE) OR (trace_id, launch_id) IN (INSIDE)
        )
    """,
    "export_node": """VIEW
        FROM surroundings
        WHERE trace_id IN (TRACE_IDS) AND (
            (trace_id, node_id) IN (INSIDE) OR (trace_id, forward_op_id) IN (INSIDE)
        )
    """,
    "export_arrow": """TABLE
        SELECT *, row_number() OVER (ORDER BY trace_id, from_id, to_id) AS number FROM (
            SELECT a.trace_id, a.from_id, a.to_id, b.event_id + e.event_id IS NOT NULL AS is_inside
            FROM event_arrows('export_flow', 'export_link', 'export_node') AS a
            LEFT JOIN export_chosen AS b ON a.trace_id = b.trace_id AND a.from_id = b.event_id
            LEFT JOIN export_chosen AS e ON a.trace_id = e.trace_id AND a.to_id = e.event_id
            WHERE b.event_id IS NOT NULL OR e.event_id IS NOT NULL
        )
    """,
    "export_arrow_end": OF_ALL["export_arrow_end"].replace("FROM event)", "FROM export_chosen)"),
    # What waits, and a mark at the end, without which the last moment would have no length.
    "export_queue": """TABLE
        WITH waiting AS (
            SELECT q.*, chosen.to_ns
            FROM queued_events() AS q
            INNER JOIN CHOSEN ON q.part.trace_id = chosen.trace_id
            WHERE q.part.trace_id IN (TRACE_IDS) AND q.end_ns >= FROM_NS
                AND q.start_ns < chosen.to_ns AND q.end_ns >= chosen.from_ns
        )
        SELECT part, start_ns, end_ns FROM waiting
        UNION ALL
        SELECT DISTINCT part, to_ns, to_ns FROM waiting
    """,
    "export_before": """TABLE
        SELECT e.trace_id, e.device, sum(e.wall_ns)::BIGINT AS exposed_ns
        FROM device_events AS e
        INNER JOIN export_reach AS r ON e.trace_id = r.trace_id AND e.device = r.device
        WHERE e.trace_id IN (TRACE_IDS) AND e.kind = 'comm' AND e.ts_ns < NEAR_TO
            AND e.ts_ns < r.near_from
        GROUP BY e.trace_id, e.device
    """,
    "export_collective": OF_ALL["export_collective"],
}
"""Likewise of a piece of the time: what is inside is as in the whole, and arrows that lead out of
it are known and not inside."""
