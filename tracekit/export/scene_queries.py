"""SQL of an export: one statement per kind of track, which calls macros in queries/export.

A row has columns that identify the track, followed by the columns of a slice. CHOSEN represents the
relation of the exported traces.
"""

from __future__ import annotations

from tracekit.export.selection import Scope
from tracekit.export.staging import Block, filled

_DURING = "x.start_ns < chosen.to_ns AND x.end_ns >= chosen.from_ns"

_FACTS = "json_merge_patch('{}', to_json(x.facts))"
"""SQL for the JSON of a struct, without its NULL members."""

THREADS = """
    SELECT r.trace_id, r.pid, r.tid, coalesce(t.pid_text, r.pid_text),
        coalesce(t.tid_text, r.tid_text), t.process_name, t.process_labels, t.thread_name, d.device
    FROM (
        SELECT trace_id, pid, tid, any_value(extra ->> '$.pid') AS pid_text,
            any_value(extra ->> '$.tid') AS tid_text, count(*) AS event_count
        FROM record
        WHERE view_name IN ('event', 'instant') AND trace_id IN (TRACE_IDS)
            AND ts_ns < LAST_NS AND ts_ns + coalesce(dur_ns, 0) >= FIRST_NS
        GROUP BY trace_id, pid, tid
    ) AS r
    INNER JOIN CHOSEN ON r.trace_id = chosen.trace_id
    LEFT JOIN thread AS t ON r.trace_id = t.trace_id AND r.pid = t.pid AND r.tid = t.tid
    LEFT JOIN (
        SELECT e.trace_id, e.pid, e.tid, min(d.device) AS device
        FROM export_work AS d
        INNER JOIN event AS e ON d.trace_id = e.trace_id AND d.event_id = e.event_id
        WHERE d.device <> 'cpu'
        GROUP BY e.trace_id, e.pid, e.tid
    ) AS d ON r.trace_id = d.trace_id AND r.pid = d.pid AND r.tid = d.tid
    ORDER BY r.trace_id, sum(r.event_count) OVER (PARTITION BY r.trace_id, r.pid) DESC, r.pid,
        r.tid <> r.pid, r.tid
"""

DEVICES = """
    SELECT w.trace_id, w.device, min(d.name)
    FROM device_windows AS w
    INNER JOIN CHOSEN ON w.trace_id = chosen.trace_id
    LEFT JOIN device_names() AS d ON w.trace_id = d.trace_id AND w.device = d.device
    GROUP BY w.trace_id, w.device
    ORDER BY w.trace_id, TRY_CAST(w.device AS BIGINT), w.device
"""

_IN_BLOCK = "trace_id = TRACE_ID AND ts_ns >= FROM_NS AND ts_ns < TO_NS"

EVENTS = f"""
    SELECT e.trace_id, e.pid, e.tid, x.event_id IS NOT NULL AND x.device <> 'cpu',
        e.ts_ns + SHIFT_NS, e.dur_ns, e.name, e.category, e.event_id, ARGS, EXTRA,
        CASE WHEN x.event_id IS NOT NULL THEN {_FACTS} END, a.arrows
    FROM (FROM event WHERE {_IN_BLOCK} AND ts_ns + dur_ns >= ENDS_FROM_NS) AS e
    LEFT JOIN (FROM export_fact WHERE {_IN_BLOCK}) AS x ON e.event_id = x.event_id
    LEFT JOIN (
        SELECT event_id, list(number ORDER BY number) AS arrows
        FROM export_arrow_end WHERE {_IN_BLOCK} GROUP BY event_id
    ) AS a ON e.event_id = a.event_id
    ORDER BY e.pid, e.tid, x.event_id IS NOT NULL AND x.device <> 'cpu', e.ts_ns, e.dur_ns DESC,
        e.event_id
"""
"""Events of a trace that begin in the time interval of a `Block`."""

INSTANTS = """
    SELECT e.trace_id, e.pid, e.tid, e.ts_ns + chosen.shift_ns, 0, e.name, e.category,
        e.event_id, ARGS, EXTRA, NULL, NULL
    FROM instant AS e
    INNER JOIN CHOSEN ON e.trace_id = chosen.trace_id
    WHERE e.trace_id IN (TRACE_IDS) AND e.ts_ns < LAST_NS AND e.ts_ns >= FIRST_NS
        AND e.ts_ns < chosen.to_ns AND e.ts_ns >= chosen.from_ns
    ORDER BY e.trace_id, e.pid, e.tid, e.ts_ns, e.event_id
"""

TIMELINE = f"""
    SELECT x.trace_id, x.device, x.start_ns + chosen.shift_ns, x.end_ns - x.start_ns,
        replace(x.kind, '_', ' ')
    FROM timeline_intervals('export_wall') AS x
    INNER JOIN CHOSEN ON x.trace_id = chosen.trace_id
    WHERE {_DURING}
    ORDER BY x.trace_id, x.device, x.start_ns
"""

PHASES = f"""
    SELECT x.trace_id, x.device, x.start_ns + chosen.shift_ns, x.end_ns - x.start_ns, x.phase,
        NULL, NULL, NULL, NULL,
        to_json({{wall_ns: x.wall_ns, idle_ns: x.end_ns - x.start_ns - x.wall_ns}})
    FROM phase_intervals('export_wall', 'export_work') AS x
    INNER JOIN CHOSEN ON x.trace_id = chosen.trace_id
    WHERE {_DURING}
    ORDER BY x.trace_id, x.device, x.start_ns
"""

MODULES = f"""
    SELECT x.trace_id, x.device, x.start_ns + chosen.shift_ns, x.end_ns - x.start_ns, x.name,
        x.phase, NULL, NULL, NULL,
        json_merge_patch('{{}}', to_json({{module: x.module_path, class: x.module_class,
            phase: x.phase, wall_ns: x.wall_ns, self_wall_ns: x.self_wall_ns}}))
    FROM module_intervals('export_wall', 'export_work') AS x
    INNER JOIN CHOSEN ON x.trace_id = chosen.trace_id
    WHERE {_DURING}
    ORDER BY x.trace_id, x.device, x.start_ns, x.end_ns DESC, x.depth
"""

GAPS = f"""
    SELECT x.trace_id, x.device, x.start_ns + SHIFT_NS, x.end_ns - x.start_ns, x.cause,
        NULL, NULL, NULL, NULL, {_FACTS}
    FROM export_gap AS x
    WHERE x.trace_id = TRACE_ID AND x.start_ns >= FROM_NS AND x.start_ns < TO_NS
        AND x.end_ns >= ENDS_FROM_NS
    ORDER BY x.device, x.start_ns
"""
"""Gaps in a `Block` of a trace. Blocks limit memory, because sorting holds all rows in memory."""

COLLECTIVES = f"""
    -- Slices: the collective, and nested in it the wait followed by the transfer. Arrows attach to
    -- the transfer.
    WITH piece AS (
        SELECT trace_id, device, event_id, start_ns, end_ns, replace(class, 'comm_', '') AS name,
            0 AS depth, facts
        FROM export_collective
        UNION ALL
        SELECT trace_id, device, event_id, start_ns, transfer_from_ns, 'wait', 1, NULL
        FROM export_collective WHERE wait_ns > 0
        UNION ALL
        SELECT trace_id, device, event_id, transfer_from_ns, end_ns, 'transfer', 2, NULL
        FROM export_collective WHERE transfer_ns IS NOT NULL
    ),
    shown AS (
        SELECT x.*, chosen.shift_ns
        FROM piece AS x
        INNER JOIN CHOSEN ON x.trace_id = chosen.trace_id
        WHERE {_DURING}
    ),
    arrow AS (
        SELECT c.trace_id, c.event_id, 1::BIGINT << 40 AS base,
            row_number() OVER (ORDER BY c.match_id, c.trace_id, c.event_id) AS number,
            lead(c.event_id) OVER ranks IS NOT NULL AS is_from,
            lag(c.event_id) OVER ranks IS NOT NULL AS is_to
        FROM export_collective AS c
        INNER JOIN shown AS s
            ON s.depth = 2 AND c.trace_id = s.trace_id AND c.event_id = s.event_id
        WHERE c.match_id IS NOT NULL
        WINDOW ranks AS (PARTITION BY c.match_id ORDER BY c.trace_id, c.event_id)
    )
    SELECT x.trace_id, x.device, x.event_id, x.start_ns + x.shift_ns, x.end_ns - x.start_ns,
        -- The slice carries the event's id, so it needs a category: without one, it would look like
        -- an event of the file that has no category.
        x.name, if(x.depth = 0, 'tracekit', NULL), if(x.depth = 0, x.event_id, NULL), NULL, NULL,
        CASE WHEN x.facts IS NOT NULL THEN {_FACTS} END,
        CASE WHEN x.depth = 2 THEN
            list_filter([
                if(a.is_from, a.base + a.number, NULL), if(a.is_to, -(a.base + a.number - 1), NULL)
            ], LAMBDA one: one IS NOT NULL)
        END, x.depth > 0
    FROM shown AS x
    LEFT JOIN arrow AS a ON x.trace_id = a.trace_id AND x.event_id = a.event_id
    ORDER BY x.trace_id, x.device,
        min(x.start_ns) OVER (PARTITION BY x.trace_id, x.event_id), x.event_id, x.depth
"""

PATH = """
    SELECT x.trace_id, x.from_ns + chosen.shift_ns, x.end_ns - x.start_ns,
        coalesce(x.name, if(x.kind IN ('host', 'thread', 'spawn'), '(Python)', x.kind)), x.kind,
        NULL, NULL, NULL,
        json_merge_patch('{}', to_json({kind: x.kind, known_by: x.known_by, class: x.class,
            phase: x.phase, module: x.module_path, of_event_id: x.event_id})),
        CASE WHEN x.number IN (SELECT number FROM export_path_arrow) THEN [x.number] END
    FROM export_path AS x
    INNER JOIN CHOSEN ON x.trace_id = chosen.trace_id
    WHERE x.from_ns < chosen.to_ns AND x.from_ns + x.end_ns - x.start_ns >= chosen.from_ns
    ORDER BY x.trace_id, x.position
"""
"""Critical path to the end of each rank, with arrows between its segments and their events."""

HOST_STEPS = f"""
    SELECT x.trace_id, x.ts_ns + chosen.shift_ns, x.dur_ns, 'step ' || x.step, 'step', NULL, NULL,
        NULL, to_json({{step: x.step, range: x.name}})
    FROM step_ranges AS x
    INNER JOIN CHOSEN ON x.trace_id = chosen.trace_id
    WHERE {_DURING.replace("start_ns", "ts_ns")}
    ORDER BY x.trace_id, x.ts_ns, x.dur_ns DESC
"""

DEVICE_STEPS = """
    SELECT x.trace_id, x.device, x.start_ns + chosen.shift_ns,
        least(x.span_ns, w.end_ns - x.start_ns) AS shown_ns, 'step ' || x.step, 'step',
        NULL, NULL, NULL, to_json({step: x.step, span_ns: x.span_ns})
    FROM device_steps AS x
    INNER JOIN device_windows AS w ON x.trace_id = w.trace_id AND x.device = w.device
    INNER JOIN CHOSEN ON x.trace_id = chosen.trace_id
    WHERE x.start_ns < chosen.to_ns AND x.start_ns + shown_ns >= chosen.from_ns
    ORDER BY x.trace_id, x.device, x.start_ns, shown_ns DESC
"""

_SERVED = """
    SELECT s.trace_id, s.run_id, s.request_id, s.step,
        (1::BIGINT << 41) + row_number() OVER (ORDER BY s.trace_id, s.run_id, s.request_id, s.step)
        AS number
    FROM (
        SELECT DISTINCT x.trace_id, r.run_id, r.request_id, x.step
        FROM request_step AS r
        INNER JOIN trace AS t ON r.run_id = t.run_id
        INNER JOIN CHOSEN ON t.trace_id = chosen.trace_id
        INNER JOIN serving_step_ranges AS x
            ON t.trace_id = x.trace_id AND x.step BETWEEN r.first_step AND r.last_step
        WHERE x.ts_ns < chosen.to_ns AND x.end_ns >= chosen.from_ns
    ) AS s
"""

SERVING_STEPS = f"""
    WITH served AS ({_SERVED}),
    arrow AS (
        SELECT trace_id, step, list(-number ORDER BY number) AS arrows
        FROM served GROUP BY trace_id, step
    )
    SELECT x.trace_id, x.ts_ns + chosen.shift_ns, x.dur_ns, x.phase || ' step ' || x.step, x.phase,
        NULL, NULL, NULL, json_merge_patch('{{}}', to_json({{
            step: x.step, phase: x.phase, prefill_request_count: x.prefill_request_count,
            prefill_token_count: x.prefill_token_count,
            decode_request_count: x.decode_request_count,
            decode_token_count: x.decode_token_count, request_count: x.request_count
        }})), a.arrows
    FROM serving_step_ranges AS x
    INNER JOIN CHOSEN ON x.trace_id = chosen.trace_id
    LEFT JOIN arrow AS a ON x.trace_id = a.trace_id AND x.step = a.step
    WHERE {_DURING.replace("start_ns", "ts_ns")}
    ORDER BY x.trace_id, x.ts_ns, x.dur_ns DESC
"""

REQUESTS = f"""
    WITH served AS ({_SERVED}),
    arrow AS (
        SELECT run_id, request_id, list(number ORDER BY number) AS arrows
        FROM served GROUP BY run_id, request_id
    ),
    span AS (
        SELECT *, coalesce(token_unix_ns, end_unix_ns) AS answer_ns,
            least(first_unix_ns, coalesce(token_unix_ns, end_unix_ns)) AS begun_ns
        FROM request_intervals()
        WHERE (run_id, request_id) IN (SELECT (run_id, request_id) FROM served)
            OR IS_WHOLE
    ),
    piece AS (
        SELECT run_id, request_id, start_unix_ns AS start_ns, end_unix_ns AS end_ns,
            'request ' || request_id AS name, 0 AS depth, facts
        FROM span
        UNION ALL
        SELECT run_id, request_id, start_unix_ns, begun_ns, 'queued', 1, NULL
        FROM span WHERE begun_ns > start_unix_ns
        UNION ALL
        SELECT run_id, request_id, greatest(coalesce(begun_ns, start_unix_ns), start_unix_ns),
            answer_ns, if(begun_ns IS NULL, 'queued and prefill', 'prefill'), 2, NULL
        FROM span WHERE answer_ns >= start_unix_ns
        UNION ALL
        SELECT run_id, request_id, token_unix_ns, end_unix_ns, 'decode', 3, NULL
        FROM span WHERE token_unix_ns <= end_unix_ns
    )
    SELECT x.run_id, x.request_id, x.start_ns, x.end_ns - x.start_ns, x.name, NULL, NULL, NULL,
        NULL, CASE WHEN x.facts IS NOT NULL THEN {_FACTS} END, if(x.depth = 0, a.arrows, NULL),
        x.depth > 0
    FROM piece AS x
    LEFT JOIN arrow AS a ON x.run_id = a.run_id AND x.request_id = a.request_id
    ORDER BY x.run_id, min(x.start_ns) OVER (PARTITION BY x.run_id, x.request_id), x.request_id,
        x.depth
"""

COUNTERS = """
    SELECT x.trace_id, x.device, x.name, x.unit, x.at_ns + chosen.shift_ns, x.value
    FROM counter_values('export_wall', 'export_fact', 'export_queue') AS x
    INNER JOIN CHOSEN ON x.trace_id = chosen.trace_id
    WHERE isfinite(x.value) AND x.at_ns < chosen.to_ns AND x.at_ns >= chosen.from_ns
    ORDER BY x.trace_id, x.device, x.name, x.at_ns, x.place, x.value
"""


def statement(template: str, scope: Scope, *, args: bool = True, is_whole: bool = True) -> str:
    first_ns, last_ns = scope.times
    values = {
        "CHOSEN": scope.relation(),
        "TRACE_IDS": scope.trace_ids,
        "FIRST_NS": f"({first_ns})",
        "LAST_NS": f"({last_ns})",
        "IS_WHOLE": is_whole,
    }
    return filled(template, values | _columns(args))


def block_statement(template: str, block: Block, *, args: bool = True) -> str:
    """Return the SQL for the events or gaps of a block (template EVENTS or GAPS)."""
    part = block.part
    values = {
        "TRACE_ID": part.trace_id,
        "SHIFT_NS": f"({part.shift_ns})",
        "FROM_NS": f"({block.from_ns})",
        "TO_NS": f"({block.to_ns})",
        "ENDS_FROM_NS": f"({part.from_ns})",
    }
    return filled(template, values | _columns(args))


def _columns(args: bool) -> dict[str, object]:
    return {name: f"e.{name.lower()}" if args else "NULL" for name in ("ARGS", "EXTRA")}
