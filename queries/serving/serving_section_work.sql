-- Device events of a serving engine with their section of the forward pass.
--
-- Kind:     table
-- Created:  on demand
-- Access:   private
-- Columns:
--   trace_id INTEGER, device VARCHAR, event_id BIGINT, piece BIGINT, dur_ns BIGINT, wall_ns BIGINT
--   ts_ns BIGINT, phase VARCHAR, module_id INTEGER, row_name VARCHAR, idle_ns BIGINT, layer INTEGER
--   launch_ts_ns BIGINT
--   section  VARCHAR  before transformer, attention, ffn, after transformer, or other

WITH layer_range AS (
    SELECT trace_id, min(position) AS first_position, max(last_position) AS last_position
    FROM module
    WHERE layer IS NOT NULL
    GROUP BY trace_id
),

waited AS (
    SELECT
        trace_id, device, event_id, piece, dur_ns, wall_ns, ts_ns, phase, module_id, row_name,
        launch_id,
        greatest(
            coalesce(gap_before_ns((trace_id, device), ts_ns, end_ns, (event_id, piece)), 0),
            0
        ) AS idle_ns
    FROM attributed_events
),

work AS (
    SELECT
        d.* EXCLUDE (launch_id),
        m.layer, l.ts_ns AS launch_ts_ns, CASE
            WHEN m.layer IS NOT NULL THEN r.section
            WHEN m.last_position < g.first_position THEN 'before transformer'
            WHEN m.position > g.last_position THEN 'after transformer'
            ELSE 'other'
        END AS section
    FROM waited AS d
    INNER JOIN layer_range AS g USING (trace_id)
    LEFT JOIN module AS m USING (trace_id, module_id)
    LEFT JOIN module_roles AS r USING (trace_id, module_id)
    LEFT JOIN launch AS l USING (trace_id, launch_id)
    WHERE d.phase IN ('prefill', 'mixed', 'decode', 'verify', 'forward')
)

SELECT
    * EXCLUDE (section),
    coalesce(
        section,
        any_value(section) OVER (
            PARTITION BY trace_id, device, layer
            ORDER BY launch_ts_ns DESC NULLS FIRST, ts_ns DESC, event_id DESC, piece DESC
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ),
        'attention'
    ) AS section
FROM work
