-- Outermost host ops by thread, ready to draw as a timeline.
-- Contains only the longest ops. Between ops, a thread runs Python, is stalled, or was not recorded. CPU-only traces
-- have no rows; their ops are in `timeline_events`.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   timeline per thread
-- Params:
--   limit  BIGINT = 20000  number of ops; 0 for all
-- Columns:
--   trace_id INTEGER -> trace, rank INTEGER, pid BIGINT, tid BIGINT -> thread(pid, tid)
--   event_id  BIGINT -> event  op
--   start_ns  BIGINT           start, ns since the first event of the trace
--   dur_ns BIGINT, name VARCHAR
--   op_count  BIGINT           number of outermost ops of the trace, shown or not
-- Invariant: dur_ns >= 0 AND op_count >= 1

WITH op AS (
    SELECT
        e.trace_id, e.pid, e.tid, e.event_id, e.ts_ns, e.dur_ns, e.name,
        latest_end_before_ns(
            (e.trace_id, e.pid, e.tid), e.ts_ns, e.ts_ns + e.dur_ns, (-e.dur_ns, e.event_id)
        ) AS before_ns
    FROM event AS e
    WHERE
        is_op(e.category)
        AND e.trace_id IN (SELECT a.trace_id FROM accelerator AS a WHERE a.accelerator <> 'cpu')
),

outermost AS (
    SELECT *, count(*) OVER (PARTITION BY trace_id) AS op_count
    FROM op
    WHERE ts_ns >= coalesce(before_ns, ts_ns)
    QUALIFY $limit = 0 OR row_number() OVER (ORDER BY dur_ns DESC, trace_id, event_id) <= $limit
)

SELECT
    o.trace_id, t.rank, o.pid, o.tid, o.event_id,
    o.ts_ns - t.first_ts_ns AS start_ns,
    o.dur_ns, o.name, o.op_count
FROM outermost AS o
INNER JOIN trace AS t USING (trace_id)
ORDER BY t.rank NULLS LAST, o.trace_id, o.pid, o.tid, start_ns, o.event_id
