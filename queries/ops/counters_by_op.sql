-- Hardware counters of kernels by op.
-- Counters come from CUPTI profiler ranges, one per kernel (category cuda_profiler_range; `profiler_metrics` of
-- torch.profiler). The ranges have no correlation IDs and no times, so they are assigned to kernel launches in order,
-- as in HTA. If the numbers of ranges and launches differ, ops are unknown, and `reason` says so.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank       INTEGER
--   device     VARCHAR  device number
--   top_op     VARCHAR  outermost op around the launch; NULL outside ops
--   op         VARCHAR  innermost op around the launch; NULL outside ops
--   kernel     VARCHAR  kernel name; __missing__ if CUPTI has no name
--   counter    VARCHAR  counter name in CUPTI
--   kernel_count  BIGINT
--   total      DOUBLE   sum of values; NULL for ratios and rates
--   min_value  DOUBLE   minimum value of a kernel
--   max_value  DOUBLE   maximum value of a kernel
--   reason     VARCHAR  why ops are unknown; else NULL
-- Invariant: kernel_count >= 1 AND min_value <= max_value AND (reason IS NULL OR (top_op IS NULL AND op IS NULL))
-- Empty: the trace has no kernel counters (category cuda_profiler_range)

WITH ranges AS (
    SELECT
        trace_id, event_id, pid AS device, name AS kernel, args,
        row_number() OVER (PARTITION BY trace_id ORDER BY ts_ns, event_id) AS number,
        count(*) OVER (PARTITION BY trace_id) AS range_count
    FROM event
    WHERE category = 'cuda_profiler_range'
),

launches AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY trace_id ORDER BY ts_ns, event_id) AS number,
        count(*) OVER (PARTITION BY trace_id) AS range_count
    FROM runtime_calls
    WHERE
        regexp_matches(name, '^cu(da)?Launch(Cooperative)?Kernel')
        AND trace_id IN (SELECT trace_id FROM ranges)
),

time_points AS (
    SELECT
        (trace_id, pid, tid) AS part, (trace_id::BIGINT << 40) + event_id AS id, ts_ns AS at_ns
    FROM launches
),

ops AS (
    SELECT
        (trace_id, pid, tid) AS part,
        (trace_id::BIGINT << 40) + event_id AS id,
        name, dur_ns,
        ts_ns AS start_ns,
        ts_ns + dur_ns AS end_ns
    FROM op_calls
    WHERE trace_id IN (SELECT trace_id FROM ranges)
),

outermost AS (
    SELECT *
    FROM ops
    QUALIFY coalesce(gap_before_ns(part, start_ns, end_ns, (-dur_ns, id)) >= 0, TRUE)
),

launched AS (
    SELECT
        l.trace_id, l.number, l.range_count, i.name AS op,
        if(l.ts_ns < o.end_ns, o.name, NULL) AS top_op
    FROM launches AS l
    LEFT JOIN interval_innermost('time_points', 'ops') AS s
        ON (l.trace_id::BIGINT << 40) + l.event_id = s.id
    LEFT JOIN ops AS i ON s.span_id = i.id
    ASOF LEFT JOIN outermost AS o
        ON (l.trace_id, l.pid, l.tid) = o.part AND l.ts_ns >= o.start_ns
),

valued AS (
    SELECT
        r.trace_id, r.device, r.kernel, l.top_op, l.op,
        if(
            l.number IS NULL, 'the number of kernel launches differs from the number of profiler '
            || 'ranges', NULL
        ) AS reason,
        unnest(json_keys(r.args)) AS counter,
        try_cast(unnest(json_extract_string(r.args, '$.*')) AS DOUBLE) AS value
    FROM ranges AS r
    LEFT JOIN launched AS l USING (trace_id, number, range_count)
)

SELECT
    t.rank,
    v.device::VARCHAR AS device,
    v.top_op, v.op, v.kernel, v.counter,
    count(*) AS kernel_count,
    if(
        regexp_matches(
            v.counter,
            '(?i)[._](pct|ratio|rate|per_\w+|peak_\w+)\b|percent|throughput|occupancy|efficiency|'
            'utili[sz]ation|(^|_)ipc\b'
        ),
        NULL,
        sum(v.value ORDER BY v.value)
    ) AS total,
    min(v.value) AS min_value,
    max(v.value) AS max_value,
    v.reason
FROM valued AS v
INNER JOIN trace AS t USING (trace_id)
WHERE v.value IS NOT NULL
GROUP BY t.trace_id, t.rank, v.device, v.top_op, v.op, v.kernel, v.counter, v.reason
ORDER BY
    t.rank NULLS LAST, t.trace_id, v.device, v.counter, total DESC, v.top_op NULLS LAST,
    v.op NULLS LAST, v.kernel
