-- Device events with the longest launch delays or launch calls.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   launch_delays per launch
-- Params:
--   limit         BIGINT = 20                  number of rows per device; 0 for all
--   by            VARCHAR{delay|call} = delay  sort by delay or by duration of the call
--   min_delay_ns  BIGINT = 0                   minimum delay, ns
--   min_call_ns   BIGINT = 0                   minimum duration of the launch call, ns
-- Columns:
--   rank       INTEGER
--   device     VARCHAR  device number
--   stream     BIGINT
--   start_ns   BIGINT   start of the launch call, ns since the first event of the trace
--   launch     VARCHAR  launch call
--   launch_ns  BIGINT   duration of the launch call, ns
--   delay_ns   BIGINT   time from the end of the launch call to the start of the work, ns; negative if the work started earlier
--   kernel     VARCHAR  device event
--   kernel_ns  BIGINT   duration of the device event, ns
--   op         VARCHAR
--   module     VARCHAR  module path
-- Invariant: launch_ns >= 0 AND kernel_ns >= 0

SELECT
    t.rank, e.device, e.stream,
    l.ts_ns - t.first_ts_ns AS start_ns,
    l.name AS launch, l.dur_ns AS launch_ns, e.launch_delay_ns AS delay_ns, e.name AS kernel,
    e.dur_ns AS kernel_ns, e.op_name AS op, m.path AS module
FROM attributed_events AS e
INNER JOIN launch AS l USING (trace_id, launch_id)
INNER JOIN trace AS t USING (trace_id)
LEFT JOIN module AS m USING (trace_id, module_id)
WHERE
    e.link = 'launch'
    AND ($min_delay_ns = 0 OR e.launch_delay_ns >= $min_delay_ns)
    AND l.dur_ns >= $min_call_ns
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY e.trace_id, e.device
        ORDER BY CASE $by WHEN 'call' THEN l.dur_ns ELSE e.launch_delay_ns END DESC, e.event_id
    ) <= $limit
ORDER BY
    t.rank NULLS LAST,
    t.trace_id, e.device,
    CASE $by WHEN 'call' THEN l.dur_ns ELSE e.launch_delay_ns END DESC,
    e.event_id
