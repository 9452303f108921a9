-- Device-to-device copies that transfer the data of a collective.
-- NCCL 2.28 and later can transfer data with copy engines. torch's symmetric memory transfers data with copies that it
-- launches within the call. Copies launched by ATen ops count only if they are between two devices.
--
-- Kind:     table
-- Access:   private
-- Input:    event WHERE name = 'record_param_comms' OR starts_with(name, 'c10d::') OR starts_with(name, 'symm_mem::')
-- Columns:
--   trace_id INTEGER -> trace, event_id BIGINT -> event

WITH copy AS (
    SELECT
        trace_id, event_id, correlation,
        regexp_matches(name, '(?i)P(?:eer)?(?:to|2)P') AS is_to_peer
    FROM event
    WHERE
        is_device_work(category)
        AND regexp_matches(category, '(?i)memcpy')
        AND regexp_matches(name, '(?i)[DP](?:evice|eer)?(?:to|2)[DP]|device_to_device|PeerToPeer')
        AND correlation > 0
),

launched AS (
    SELECT
        c.trace_id, c.event_id, c.is_to_peer, e.pid, e.tid, e.ts_ns, e.external_id,
        e.ts_ns + e.dur_ns AS end_ns,
        FALSE AS is_call
    FROM copy AS c
    INNER JOIN event AS e USING (trace_id, correlation)
    WHERE is_launch_call(e.category)
),

called AS (
    SELECT *
    FROM launched
    UNION ALL BY NAME
    SELECT
        trace_id, event_id, pid, tid, ts_ns,
        ts_ns + dur_ns AS end_ns,
        TRUE AS is_call
    FROM event
    WHERE
        is_op(category)
        AND (
            name = 'record_param_comms'
            OR starts_with(name, 'c10d::')
            OR starts_with(name, 'symm_mem::')
        )
),

-- Calls of a thread are nested, so the innermost open call is the latest call that is still open.
around AS (
    SELECT
        *,
        latest_end_before_ns(
            (trace_id, pid, tid), ts_ns, if(is_call, end_ns, NULL), (NOT is_call, event_id)
        ) AS call_end_ns
    FROM called
),

copied_by_aten AS (
    SELECT DISTINCT trace_id, external_id
    FROM event
    WHERE is_op(category) AND starts_with(name, 'aten::') AND external_id IS NOT NULL
)

SELECT DISTINCT a.trace_id, a.event_id
FROM around AS a
LEFT JOIN copied_by_aten AS o USING (trace_id, external_id)
WHERE NOT a.is_call AND a.end_ns <= a.call_end_ns AND (a.is_to_peer OR o.external_id IS NULL)
ORDER BY a.trace_id, a.event_id
