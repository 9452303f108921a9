-- Launches of prefill and decode passes in traces without phase ranges.
-- Covers traces without training that have recorded shapes. A pass starts with the embedding of its tokens; the number
-- of tokens per sequence is the query length. A thread generates text if single-token passes follow a longer pass with
-- the same embedding table, or if single-token queries attend to several tokens. A pass lasts until the next one
-- starts. The last pass, and a prefill that no decode follows, last at most 1.5 times the longest of their phase.
--
-- Kind:     table
-- Input:    trace_traits WHERE NOT is_training AND NOT has_phases
-- Columns:
--   trace_id   INTEGER -> trace
--   launch_id  BIGINT -> event.event_id  launch
--   phase      VARCHAR                   prefill or decode

WITH shaped AS (
    SELECT
        e.trace_id, e.event_id, e.pid, e.tid, e.ts_ns, e.name,
        e.args -> '$."Input Dims"' AS dims
    FROM event AS e
    INNER JOIN trace_traits AS t USING (trace_id)
    WHERE
        e.name IN ('aten::embedding', 'aten::scaled_dot_product_attention')
        AND NOT t.is_training
        AND NOT t.has_phases
),

pass AS (
    SELECT
        trace_id, event_id, pid, tid, ts_ns,
        dims ->> '$[0]' AS embedding,
        try_cast(dims ->> '$[1][#-1]' AS BIGINT) AS query_length,
        lag(query_length) OVER passes AS length_before,
        lead(query_length) OVER passes AS length_behind,
        next_start_ns((trace_id, pid, tid, embedding), ts_ns, event_id) AS next_ts_ns
    FROM shaped
    WHERE name = 'aten::embedding' AND query_length > 0
    WINDOW passes AS (PARTITION BY trace_id, pid, tid, embedding ORDER BY ts_ns, event_id)
),

cached AS (
    SELECT trace_id, pid, tid
    FROM shaped
    WHERE
        name = 'aten::scaled_dot_product_attention'
        AND try_cast(dims ->> '$[0][#-2]' AS BIGINT) = 1
        AND try_cast(dims ->> '$[1][#-2]' AS BIGINT) > 1
    GROUP BY trace_id, pid, tid
    HAVING count(*) > 1
),

generating AS (
    SELECT p.trace_id, p.pid, p.tid, p.embedding
    FROM pass AS p
    LEFT JOIN cached AS c USING (trace_id, pid, tid)
    GROUP BY p.trace_id, p.pid, p.tid, p.embedding
    HAVING
        bool_or(p.length_before > 1 AND p.query_length = 1 AND p.length_behind = 1)
        OR (any_value(c.trace_id) IS NOT NULL AND count(*) FILTER (p.query_length = 1) > 1)
),

pass_phase AS (
    SELECT
        p.trace_id, p.pid, p.tid, p.ts_ns,
        if(p.query_length = 1, 'decode', 'prefill') AS phase,
        least(
            p.next_ts_ns,
            p.ts_ns + max(p.next_ts_ns - p.ts_ns) FILTER (
                p.query_length = 1 OR p.length_behind = 1
            ) OVER (PARTITION BY p.trace_id, p.pid, p.tid, p.embedding, p.query_length = 1) * 3 // 2
        ) AS end_ns
    FROM pass AS p
    INNER JOIN generating AS g USING (trace_id, pid, tid, embedding)
)

SELECT l.trace_id, l.launch_id, t.phase
FROM (SELECT DISTINCT trace_id, launch_id FROM launch_link WHERE launch_id IS NOT NULL) AS l
INNER JOIN event AS e ON l.trace_id = e.trace_id AND l.launch_id = e.event_id
ASOF INNER JOIN pass_phase AS t
    ON e.trace_id = t.trace_id AND e.pid = t.pid AND e.tid = t.tid AND e.ts_ns >= t.ts_ns
WHERE t.end_ns IS NULL OR e.ts_ns < t.end_ns
ORDER BY l.trace_id, l.launch_id
