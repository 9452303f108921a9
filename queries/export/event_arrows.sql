-- Arrows between related events: event_arrows('flows', 'links', 'nodes').
-- Arrows lead from launch to device event and from forward op to backward node. Flows of the file are arrows too if
-- both ends are on events. An end of a flow is on the shortest event of its thread that starts at the same time, or
-- else on the innermost event around it.
--
-- Kind:     function
-- Params:
--   flows  VARCHAR  relation with the flow rows of table record
--   links  VARCHAR  relation with rows of table attribution
--   nodes  VARCHAR  relation with rows of table launch_context
-- Columns:
--   trace_id    INTEGER
--   from_id     BIGINT   source event
--   to_id       BIGINT   target event
--   category    VARCHAR  launch, backward, or the category in the file
--   is_in_file  BOOLEAN  the arrow is a flow recorded in the file

CREATE OR REPLACE MACRO event_arrows(flows, links, nodes) AS TABLE (
    WITH flow_end AS (
        SELECT
            trace_id,
            {trace_id: trace_id, pid: pid, tid: tid} AS part,
            row_number() OVER () AS id,
            ts_ns AS at_ns, ph, category,
            {category: category, id: id} AS arrow,
            event_id
        FROM query_table(flows)
        WHERE view_name = 'flow' AND id IS NOT NULL
    ),

    begun AS (
        SELECT f.id, arg_min(e.event_id, (e.dur_ns, e.event_id)) AS span_id
        FROM flow_end AS f
        INNER JOIN event AS e
            ON
                f.trace_id = e.trace_id
                AND f.part.pid = e.pid
                AND f.part.tid = e.tid
                AND f.at_ns = e.ts_ns
        GROUP BY f.id
    ),

    held_end AS (
        SELECT part, id, at_ns
        FROM flow_end
        WHERE id NOT IN (SELECT id FROM begun)
    ),

    holding_span AS (
        SELECT
            {trace_id: trace_id, pid: pid, tid: tid} AS part,
            event_id AS id, ts_ns AS start_ns,
            ts_ns + dur_ns AS end_ns
        FROM event
        WHERE
            (trace_id, pid, tid) IN (SELECT (part.trace_id, part.pid, part.tid) FROM held_end)
            AND ts_ns <= (SELECT max(at_ns) FROM held_end)
            AND ts_ns + dur_ns >= (SELECT min(at_ns) FROM held_end)
    ),

    placed AS (
        SELECT * FROM begun
        UNION ALL
        SELECT * FROM interval_innermost('held_end', 'holding_span')
    ),

    -- Connect the end of an arrow to the latest earlier flow start (`s`) or flow step (`t`), or
    -- else to the first flow start.
    sorted AS (
        SELECT
            f.trace_id, f.category, f.ph, p.span_id,
            last_value(if(f.ph IN ('s', 't'), p.span_id, NULL) IGNORE NULLS) OVER (
                PARTITION BY f.trace_id, f.arrow
                ORDER BY f.at_ns, f.ph <> 's', f.ph <> 't', f.event_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS last_id,
            first_value(if(f.ph = 's', p.span_id, NULL) IGNORE NULLS) OVER (
                PARTITION BY f.trace_id, f.arrow
                ORDER BY f.at_ns, f.event_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
            ) AS first_id
        FROM flow_end AS f
        INNER JOIN placed AS p ON f.id = p.id
    ),

    arrow AS (
        SELECT
            trace_id,
            coalesce(last_id, first_id) AS from_id,
            span_id AS to_id, category, TRUE AS is_in_file
        FROM sorted
        WHERE ph IN ('t', 'f')
        UNION ALL
        SELECT
            trace_id, launch_id AS from_id, event_id AS to_id,
            'launch' AS category,
            FALSE AS is_in_file
        FROM query_table(links)
        WHERE link = 'launch'
        UNION ALL
        SELECT
            trace_id, forward_op_id AS from_id, node_id AS to_id,
            'backward' AS category,
            FALSE AS is_in_file
        FROM query_table(nodes)
        WHERE forward_op_id IS NOT NULL
    )

    SELECT
        trace_id, from_id, to_id,
        coalesce(min(category) FILTER (NOT is_in_file), min(category)) AS category,
        bool_or(is_in_file) AS is_in_file
    FROM arrow
    WHERE from_id <> to_id
    GROUP BY trace_id, from_id, to_id
);
