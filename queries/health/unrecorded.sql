-- Which work of devices is not in the file, why, and what did the host do meanwhile?
-- Only of traces of a run on a device whose kernels were not recorded: none of its figures can be told, and the CPU is
-- not the device. The rows are what the threads of the host worked on: at each moment of a thread, the innermost op or
-- runtime call that was open. Where the file has none, one row tells that the work is missing.
--
-- Kind:     analysis
-- Scope:    trace
-- Input:    accelerator WHERE NOT is_recorded
-- Columns:
--   rank          INTEGER  global rank
--   accelerator   VARCHAR  the kind of accelerator, as far as the file tells
--   reason        VARCHAR  what tells of it, and why its work may be missing
--   launch_count  BIGINT   calls that put work on a device
--   kind          VARCHAR  op, call (of the runtime or driver) or range; NULL where the host has no ops
--   name          VARCHAR  the op, call or range
--   op_count      BIGINT   how often it ran
--   host_ns       BIGINT   how long it was the innermost one on its thread, ns
--   host_pct      DOUBLE   its share of what the threads of the host worked, 0 to 100
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
