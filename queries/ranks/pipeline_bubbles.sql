-- Pipeline bubbles by stage, with the schedule.
-- A bubble is exposed time in which a rank waits for other stages, in sends, receives, and collectives across stages.
-- With equal stages, GPipe and 1F1B have bubbles of (stages - 1) / (micro-batches + stages - 1) of a step. They differ
-- in the forward passes that a stage sends before the first gradients return: all in GPipe, one per remaining stage in
-- 1F1B.
-- The schedule is known only if the peers of sends and receives are recorded.
--
-- Kind:     analysis
-- Scope:    run
-- Input:    parallel_members
-- Columns:
--   stage                BIGINT   position in the pipeline, from 0
--   stage_count          BIGINT   number of stages
--   rank_count           BIGINT   number of ranks and devices of the stage
--   step_count           BIGINT   number of marked steps; 1 if none are marked
--   microbatch_count     DOUBLE   micro-batches per step; NULL if ranks or steps differ
--   in_flight_count      BIGINT   maximum number of forward passes whose gradients have not returned
--   schedule             VARCHAR  gpipe or 1f1b, if all stages fit; else NULL
--   window_ns            DOUBLE   mean device window, ns
--   bubble_ns            DOUBLE   mean bubble, ns
--   bubble_pct           DOUBLE   bubble_ns as a share of window_ns, 0 to 100
--   schedule_bubble_pct  DOUBLE   bubble of either schedule with equal stages, 0 to 100
--   pass_wait_ns         DOUBLE   part of bubble_ns in sends and receives, ns
--   max_bubble_ns        BIGINT   longest bubble of a device, ns
--   max_bubble_rank      INTEGER  rank of the longest bubble
--   reason               VARCHAR  why the schedule is unknown; else NULL
-- Keep:     stage, rank_count, microbatch_count, in_flight_count, schedule, bubble_ns, bubble_pct, schedule_bubble_pct
-- Invariant: pass_wait_ns <= bubble_ns AND bubble_ns <= window_ns
-- Empty: no listed process group is a pipeline by its description or by sends and receives

WITH stage AS (
    SELECT rank, min(place) AS stage, max(group_size) AS stage_count
    FROM parallel_members
    WHERE dimension = 'pipeline'
    GROUP BY rank
),

-- A collective of a group that spans several stages waits for all of them.
crossing AS (
    SELECT m.pg_name, m.group_key
    FROM parallel_members AS m
    INNER JOIN stage AS s USING (rank)
    GROUP BY m.pg_name, m.group_key
    HAVING min(s.stage) < max(s.stage)
),

crossing_member AS (
    SELECT DISTINCT m.pg_name, m.rank
    FROM parallel_members AS m
    INNER JOIN crossing AS c USING (group_key)
),

part AS (
    SELECT
        m.trace_id, m.rank, m.device, m.ts_ns, m.event_id, s.stage, s.stage_count,
        m.sender_rank IS NOT NULL AS is_pass,
        least(m.wait_ns, m.wall_ns) AS bubble_ns,
        -- +1: activations are sent to the next stage, or received by the last stage. -1: their
        -- gradients return.
        CASE
            WHEN t.stage IS NULL OR t.stage = s.stage THEN NULL
            WHEN (t.stage < s.stage) <> (s.stage + 1 = s.stage_count) THEN NULL
            WHEN (m.sender_rank = m.rank) = (t.stage > s.stage) THEN 1
            ELSE -1
        END AS flight
    FROM collective_matches AS m
    INNER JOIN stage AS s USING (rank)
    LEFT JOIN stage AS t
        ON if(m.sender_rank = m.rank, m.receiver_rank, m.sender_rank) = t.rank
    LEFT JOIN crossing_member AS c USING (pg_name, rank)
    WHERE m.sender_rank IS NOT NULL OR c.rank IS NOT NULL
),

in_flight AS (
    SELECT
        *,
        sum(flight) OVER (
            PARTITION BY trace_id, device ORDER BY ts_ns, event_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS in_flight_count
    FROM part
),

marked AS (
    SELECT trace_id, count(DISTINCT step) AS step_count
    FROM step_ranges
    GROUP BY trace_id
),

device AS (
    SELECT
        f.trace_id, f.device,
        any_value(f.rank) AS rank,
        any_value(f.stage) AS stage,
        any_value(f.stage_count) AS stage_count,
        coalesce(sum(f.bubble_ns), 0)::BIGINT AS bubble_ns,
        coalesce(sum(f.bubble_ns) FILTER (f.is_pass), 0)::BIGINT AS pass_wait_ns,
        max(f.in_flight_count)::BIGINT AS in_flight_count,
        count(*) FILTER (f.flight = 1) AS forward_count,
        count(*) FILTER (f.flight = -1) AS backward_count
    FROM in_flight AS f
    GROUP BY f.trace_id, f.device
),

staged AS (
    SELECT
        d.stage,
        max(d.stage_count) AS stage_count,
        count(*) AS rank_count,
        max(coalesce(k.step_count, 1)) AS step_count,
        min(d.forward_count) AS least_forward_count,
        max(d.forward_count) AS most_forward_count,
        max(d.in_flight_count) AS in_flight_count,
        bool_and(d.forward_count = d.backward_count) AS is_whole,
        avg(w.window_ns) AS window_ns,
        avg(d.bubble_ns) AS bubble_ns,
        avg(d.pass_wait_ns) AS pass_wait_ns,
        max(d.bubble_ns) AS max_bubble_ns,
        arg_max(d.rank, (d.bubble_ns, -d.rank)) AS max_bubble_rank
    FROM device AS d
    INNER JOIN device_windows AS w USING (trace_id, device)
    LEFT JOIN marked AS k USING (trace_id)
    GROUP BY d.stage
),

checked AS (
    SELECT
        *,
        bool_and(is_whole AND least_forward_count > 0) OVER () AS has_passes,
        min(least_forward_count) OVER () = max(most_forward_count) OVER ()
        AND max(most_forward_count) OVER () % max(step_count) OVER () = 0 AS is_even,
        max(most_forward_count) OVER () / max(step_count) OVER () AS per_step
    FROM staged
),

fitted AS (
    SELECT
        *,
        if(has_passes AND is_even, per_step, NULL) AS microbatch_count,
        bool_and(in_flight_count = per_step) OVER () AS is_gpipe,
        bool_and(in_flight_count = least(per_step, stage_count - stage)) OVER () AS is_1f1b
    FROM checked
)

SELECT
    stage, stage_count, rank_count, step_count, microbatch_count, in_flight_count,
    -- With one micro-batch, both schedules are the same.
    CASE
        WHEN microbatch_count IS NULL THEN NULL
        WHEN is_1f1b THEN '1f1b'
        WHEN is_gpipe THEN 'gpipe'
    END AS schedule, window_ns, bubble_ns,
    100.0 * bubble_ns / nullif(window_ns, 0) AS bubble_pct,
    100.0 * (stage_count - 1) / (microbatch_count + stage_count - 1) AS schedule_bubble_pct,
    pass_wait_ns, max_bubble_ns, max_bubble_rank, CASE
        WHEN NOT has_passes
            THEN 'some sends or receives between stages are missing, or their peers are unknown'
        WHEN NOT is_even THEN 'ranks or steps have different numbers of micro-batches'
        WHEN NOT is_1f1b AND NOT is_gpipe
            THEN 'the order of forward and backward passes matches neither GPipe nor 1F1B'
    END AS reason
FROM fitted
ORDER BY stage
