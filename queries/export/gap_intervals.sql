-- Idle gap segments with cause and facts for viewers: gap_intervals('gaps').
--
-- Kind:     function
-- Params:
--   gaps  VARCHAR  relation with rows of table idle_gap
-- Columns:
--   trace_id INTEGER, device VARCHAR
--   cause  VARCHAR  cause, as in idle_gap
--   start_ns BIGINT, end_ns BIGINT
--   facts  STRUCT   reason, op, module, kernels before and after, and more

CREATE OR REPLACE MACRO gap_intervals(gaps) AS TABLE (
    -- A join keeps one side in memory, so join names by number instead of text.
    WITH named_op AS (
        SELECT trace_id, event_id, name
        FROM event
        WHERE (trace_id, event_id) IN (SELECT DISTINCT row(trace_id, op_id) FROM query_table(gaps))
    ),

    label AS MATERIALIZED (
        SELECT name, row_number() OVER () AS number
        FROM (
            SELECT name FROM named_op
            UNION
            SELECT name FROM device_events
            UNION
            SELECT name FROM launch
        ) AS name_list
    ),

    op AS (
        SELECT o.trace_id, o.event_id, t.number
        FROM named_op AS o
        INNER JOIN label AS t USING (name)
    ),

    work AS (
        SELECT d.trace_id, d.event_id, t.number
        FROM device_events AS d
        INNER JOIN label AS t USING (name)
        WHERE d.piece = 0
    ),

    call AS (
        SELECT c.trace_id, c.launch_id, t.number
        FROM launch AS c
        INNER JOIN label AS t USING (name)
    ),

    numbered AS (
        SELECT
            g.*,
            o.number AS op_number, p.number AS previous_number, n.number AS next_number,
            l.number AS launch_number
        FROM query_table(gaps) AS g
        LEFT JOIN op AS o ON g.trace_id = o.trace_id AND g.op_id = o.event_id
        LEFT JOIN work AS p ON g.trace_id = p.trace_id AND g.previous_event_id = p.event_id
        LEFT JOIN work AS n ON g.trace_id = n.trace_id AND g.next_event_id = n.event_id
        LEFT JOIN call AS l ON g.trace_id = l.trace_id AND g.launch_id = l.launch_id
    )

    SELECT
        g.trace_id, g.device, g.cause, g.start_ns, g.end_ns,
        {
            reason: g.reason,
            host_op: if(g.busy_op_id IS NULL, NULL, o.name),
            next_op: if(g.busy_op_id IS NULL, o.name, NULL),
            next_module: m.path,
            host_ns: g.host_ns,
            previous_kernel: p.name,
            next_kernel: n.name,
            launch: l.name,
            launch_event_id: g.launch_id,
            launch_delay_ns: g.launch_delay_ns
        } AS facts
    FROM numbered AS g
    LEFT JOIN label AS o ON g.op_number = o.number
    LEFT JOIN label AS p ON g.previous_number = p.number
    LEFT JOIN label AS n ON g.next_number = n.number
    LEFT JOIN label AS l ON g.launch_number = l.number
    LEFT JOIN module AS m USING (trace_id, module_id)
);
