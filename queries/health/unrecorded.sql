-- Host work in traces without recorded device work.
-- In these traces, the CPU does not count as the device. Time belongs to the innermost open op or runtime call of each
-- thread. If the host has no ops, one row reports the missing work.
--
-- Kind:     analysis
-- Scope:    trace
-- Input:    accelerator WHERE NOT is_recorded
-- Columns:
--   rank          INTEGER
--   accelerator   VARCHAR  accelerator, if known
--   reason        VARCHAR  evidence of device work, and why it may be missing
--   launch_count  BIGINT   number of launch calls
--   kind          VARCHAR  op, call (runtime or driver), or range; NULL if the host has no ops
--   name          VARCHAR  op, call, or range
--   op_count      BIGINT   number of occurrences
--   host_ns       BIGINT   self time on the host, ns
--   host_pct      DOUBLE   share of the host work, 0 to 100
-- View:
--   breakdown  totals=unrecorded_totals
-- Invariant: host_pct IS NULL OR (0 <= host_pct AND host_pct <= 100)

WITH host AS (
    SELECT
        w.trace_id, CASE
            WHEN is_launch_call(e.category) THEN 'call'
            WHEN is_op(e.category) THEN 'op'
            ELSE 'range'
        END AS kind, e.name,
        count(DISTINCT w.event_id) AS op_count,
        sum(w.dur_ns)::BIGINT AS host_ns
    FROM cpu_work AS w
    INNER JOIN event AS e USING (trace_id, event_id)
    WHERE w.trace_id IN (SELECT trace_id FROM accelerator WHERE NOT is_recorded)
    GROUP BY ALL
)

SELECT
    t.rank, a.accelerator, a.reason, a.launch_count, h.kind, h.name, h.op_count, h.host_ns,
    100.0 * h.host_ns / sum(h.host_ns) OVER (PARTITION BY t.trace_id) AS host_pct
FROM accelerator AS a
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN host AS h USING (trace_id)
WHERE NOT a.is_recorded
ORDER BY t.rank NULLS LAST, t.trace_id, h.host_ns DESC, h.name
