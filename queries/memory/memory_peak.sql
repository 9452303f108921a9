-- Memory in use at the peak of each device, by combination of category, phase, module, op, and line.
-- Rows add up to the peak. One row, (before the recording), contains all memory allocated before the recording.
--
-- Kind:     analysis
-- Scope:    trace
-- Family:   memory_peaks per block
-- Columns:
--   rank INTEGER, device VARCHAR
--   category     VARCHAR  parameters, gradients, optimizer state, activations, inputs, temporary, unknown, (before the recording), or recorded
--   phase        VARCHAR  phase of the allocation; NULL for (before the recording)
--   module_path  VARCHAR  module path of the allocation, or a row such as (optimizer) for work outside modules
--   op           VARCHAR  innermost op around the allocation
--   line         VARCHAR  program line, if the allocator history has it
--   block_count  BIGINT   number of blocks; NULL if unknown
--   bytes        BIGINT   size, bytes; (before the recording) is negative if releases are missing
--   peak_pct     DOUBLE   share of the peak of the device, percent
-- Keep: rank, device, category, bytes, peak_pct, module_path, phase, op
-- Invariant: block_count >= 1 OR category = '(before the recording)'
-- Invariant: bytes > 0 OR category = '(before the recording)'
-- Empty: memory: the trace has no allocator events: record with profile_memory=True
-- Empty: the allocator events have no addresses or no totals

WITH device_peak AS (
    SELECT
        trace_id, device,
        max(highest_bytes) AS allocated_bytes,
        max(highest_bytes) - coalesce(sum(bytes) FILTER (is_at_peak), 0) AS before_bytes
    FROM memory_event
    GROUP BY trace_id, device
),

block_group AS (
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
FROM block_group AS h
INNER JOIN device_peak AS p USING (trace_id, device)
INNER JOIN trace AS t USING (trace_id)
ORDER BY
    t.rank NULLS LAST, h.trace_id, h.device, h.bytes DESC, h.category, h.module_path, h.phase,
    h.op NULLS LAST, h.line NULLS LAST
