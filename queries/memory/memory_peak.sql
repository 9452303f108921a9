-- What held the memory of each device when most of it was in use?
-- The blocks in use at the peak of analysis memory_peaks, by category, phase, module, op and line, as table memory_event
-- has them. What was there when the recording began is a row of its own, (before the recording): nothing tells what it
-- is. The rows of a device add up to its peak, as the trace tells it.
--
-- Kind:     analysis
-- Scope:    trace
-- Columns:
--   rank         INTEGER  global rank
--   device       VARCHAR  number of the device as its kernels have it, or cpu: the host
--   category     VARCHAR  parameters, gradients, optimizer state, activations, inputs, temporary, unknown or (before the recording);
--                         what the file tells may name others
--   phase        VARCHAR  phase in which it was allocated; NULL of (before the recording)
--   module_path  VARCHAR  module in which it was allocated, or a row in parentheses
--   op           VARCHAR  innermost op around the allocation
--   line         VARCHAR  line of the program, where an allocator's history tells it
--   block_count  BIGINT   blocks; NULL where they are not known
--   bytes        BIGINT   their size, bytes; (before the recording) is negative where releases are missing
--   peak_pct     DOUBLE   bytes of the peak of the device, in percent
-- Keep: rank, device, category, bytes, peak_pct, module_path, phase, op
-- Invariant: block_count >= 1 OR category = '(before the recording)'
-- Invariant: bytes > 0 OR category = '(before the recording)'
-- Empty: memory: the trace has no events of an allocator: record them with profile_memory=True
-- Empty: the events of its allocator tell no addresses

WITH device_peak AS (
    SELECT
        trace_id, device,
        max(allocated_bytes) AS allocated_bytes,
        max(allocated_bytes) - coalesce(sum(bytes) FILTER (is_at_peak), 0) AS before_bytes
    FROM memory_event
    GROUP BY trace_id, device
),

held AS (
    SELECT
        e.trace_id, e.device, e.category, e.phase,
        coalesce(m.path, e.row_name) AS module_path,
        e.op_name AS op,
        e.line,
        count(*) AS block_count,
        sum(e.bytes) AS bytes
    FROM memory_event AS e
    LEFT JOIN module AS m USING (trace_id, module_id)
    WHERE e.is_at_peak
    GROUP BY ALL
    UNION ALL BY NAME
    SELECT
        trace_id, device,
        '(before the recording)' AS category,
        '(before the recording)' AS module_path,
        before_bytes AS bytes
    FROM device_peak
    WHERE before_bytes <> 0
)

SELECT
    t.rank, h.device, h.category, h.phase, h.module_path, h.op, h.line, h.block_count,
    h.bytes::BIGINT AS bytes,
    100.0 * h.bytes / nullif(p.allocated_bytes, 0) AS peak_pct
FROM held AS h
INNER JOIN device_peak AS p USING (trace_id, device)
INNER JOIN trace AS t USING (trace_id)
ORDER BY
    t.rank NULLS LAST, h.trace_id, h.device, h.bytes DESC, h.category, h.module_path, h.phase,
    h.op NULLS LAST, h.line NULLS LAST
