-- Recurring sequences of kernels, by op.
-- A sequence contains all kernels that one call launched, ordered by start on the device. Calls are calls of `op`, or
-- of all outermost ops if `op` is not set. Nested calls of the same op count as part of the outer call, so each kernel
-- is in one sequence. With `length`, any `length` consecutive kernels are a sequence: in a call of `op`, or on a stream
-- if `op` is not set. These sequences overlap; they are candidates for fusion.
--
-- Kind:     analysis
-- Scope:    trace
-- Params:
--   op          VARCHAR = NULL  only calls of this op
--   length      BIGINT = 0      kernels per sequence, at most 64; 0 for all that a call launched
--   min_length  BIGINT = 2      minimum number of kernels
--   limit       BIGINT = 20     number of sequences per rank, longest first; 0 for all
-- Columns:
--   rank            INTEGER
--   op              VARCHAR    op; NULL for sequences on a stream
--   kernels         VARCHAR[]  kernels, copies, or ops, in order
--   kernel_count    BIGINT     number of kernels
--   sequence_count  BIGINT     number of occurrences
--   kernel_ns       BIGINT     sum of the durations of the kernels, ns
--   mean_ns         DOUBLE     time per occurrence, ns
--   host_ns         BIGINT     sum of durations of the calls, ns; NULL if `length` is set
-- Empty: no call launched enough kernels for a sequence (the maximum length is 64)
-- Invariant: kernel_count = len(kernels) AND sequence_count > 0 AND (host_ns IS NULL OR host_ns >= 0)

WITH call AS (
    SELECT trace_id, name, place, behind_place, host_ns
    FROM op_work
    WHERE $op IS NULL OR name = $op
    QUALIFY coalesce(latest_end_before_ns(
        (trace_id, pid, tid, if($op IS NULL, NULL, name)), place, ts_ns + host_ns, place
    ) <= ts_ns, TRUE)
),

device_event AS (
    SELECT
        trace_id, event_id, name,
        any_value(device) AS device,
        any_value(stream) AS stream,
        any_value(op_id) AS op_id,
        min(ts_ns) AS ts_ns,
        sum(dur_ns)::BIGINT AS dur_ns
    FROM attributed_events
    GROUP BY ALL
),

call_event AS (
    SELECT
        r.trace_id, r.device, r.stream, r.ts_ns, r.event_id, r.name, r.dur_ns, c.host_ns,
        c.name AS op,
        c.place AS call_place
    FROM device_event AS r
    INNER JOIN op_work AS w ON r.trace_id = w.trace_id AND r.op_id = w.event_id
    ASOF INNER JOIN call AS c ON w.place >= c.place
    WHERE w.place < c.behind_place AND ($length = 0 OR $op IS NOT NULL)
    UNION ALL BY NAME
    SELECT trace_id, device, stream, ts_ns, event_id, name, dur_ns
    FROM device_event
    WHERE $length > 0 AND $op IS NULL
),

sequence AS (
    SELECT
        trace_id, op, host_ns, call_place,
        list(name ORDER BY ts_ns, device, stream, event_id) AS kernels,
        sum(dur_ns)::BIGINT AS kernel_ns
    FROM call_event
    WHERE $length = 0
    GROUP BY ALL
    UNION ALL BY NAME
    SELECT
        trace_id, op,
        list_slice(list(name) OVER next_ones, 1, $length) AS kernels,
        list_sum(list_slice(list(dur_ns) OVER next_ones, 1, $length)) AS kernel_ns
    FROM call_event
    WHERE $length BETWEEN 1 AND 64
    WINDOW next_ones AS (
        PARTITION BY trace_id, device, stream, call_place ORDER BY ts_ns, event_id
        ROWS BETWEEN CURRENT ROW AND $length FOLLOWING
    )
),

summed AS (
    SELECT
        trace_id, op, kernels,
        count(*) AS sequence_count,
        sum(kernel_ns)::BIGINT AS kernel_ns,
        sum(host_ns)::BIGINT AS host_ns
    FROM sequence
    WHERE len(kernels) >= greatest($min_length, $length)
    GROUP BY ALL
)

SELECT
    t.rank, s.op, s.kernels,
    len(s.kernels) AS kernel_count,
    s.sequence_count, s.kernel_ns,
    s.kernel_ns / s.sequence_count AS mean_ns,
    s.host_ns
FROM summed AS s
INNER JOIN trace AS t USING (trace_id)
QUALIFY
    $limit = 0
    OR row_number() OVER (
        PARTITION BY s.trace_id ORDER BY s.kernel_ns DESC, s.op, s.kernels
    ) <= $limit
ORDER BY t.rank NULLS LAST, s.trace_id, s.kernel_ns DESC, s.op, s.kernels
