-- When was each device at which kind of work, and when idle?
-- timeline_intervals('walls') tiles the window of each device; the lengths of a kind add up to what analysis timeline has.
--
-- Kind:     macro
-- Params:
--   walls  VARCHAR  name of a relation with the rows of wall_intervals()
-- Columns:
--   trace_id  INTEGER  the trace
--   device    VARCHAR  number of the device, or cpu
--   kind      VARCHAR  compute, exposed_comm, exposed_memcpy or idle
--   start_ns  BIGINT   start, ns
--   end_ns    BIGINT   end, ns

CREATE OR REPLACE MACRO timeline_intervals(walls) AS TABLE (
    WITH tile AS (
        SELECT
            trace_id,
            device,
            start_ns,
            end_ns,
            CASE coalesce(kind, 'idle')
                WHEN 'comm' THEN 'exposed_comm'
                WHEN 'memcpy' THEN 'exposed_memcpy'
                ELSE coalesce(kind, 'idle')
            END AS kind
        FROM query_table(walls)
    ),

    changed AS (
        SELECT
            *,
            lag(kind) OVER tiles AS before
        FROM tile
        WINDOW tiles AS (PARTITION BY trace_id, device ORDER BY start_ns)
    ),

    numbered AS (
        SELECT
            *,
            count(if(before IS DISTINCT FROM kind, 1, NULL)) OVER (
                PARTITION BY trace_id, device ORDER BY start_ns ROWS UNBOUNDED PRECEDING
            ) AS run
        FROM changed
    )

    SELECT
        trace_id,
        device,
        any_value(kind) AS kind,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns
    FROM numbered
    GROUP BY trace_id, device, run
);
