-- Memory in use at the peak of each device, by category, phase, module, op, and line.
-- Groups memory_peak by one dimension at a time. The rows of each dimension add up to the peak.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   memory_peaks per holder
-- Input:    memory_peak
-- Columns:
--   rank INTEGER, device VARCHAR
--   dimension    VARCHAR  category, phase, module, op, or line
--   holder       VARCHAR  value of the dimension; (none) if unknown
--   block_count  BIGINT   number of blocks; NULL if unknown
--   bytes        BIGINT   size, bytes
--   peak_pct     DOUBLE   share of the peak of the device, percent
-- Keep: rank, device, dimension, holder, bytes, peak_pct
-- Invariant: dimension IN ('category', 'phase', 'module', 'op', 'line')
-- Empty: no trace has allocator events with addresses

WITH named AS (
    SELECT
        rank, device, block_count, bytes, peak_pct,
        if(category = '(before the recording)', category, '(none)') AS otherwise,
        unnest([
            {'dimension': 'category', 'holder': category}, {'dimension': 'phase', 'holder': phase},
            {'dimension': 'module', 'holder': module_path}, {'dimension': 'op', 'holder': op},
            {'dimension': 'line', 'holder': line}
        ], recursive := TRUE)
    FROM memory_peak
)

SELECT
    rank, device, dimension,
    coalesce(holder, otherwise) AS holder,
    sum(block_count)::BIGINT AS block_count,
    sum(bytes)::BIGINT AS bytes,
    sum(peak_pct) AS peak_pct
FROM named
GROUP BY rank, device, dimension, coalesce(holder, otherwise)
ORDER BY
    rank NULLS LAST, device,
    list_position(['category', 'phase', 'module', 'op', 'line'], dimension), bytes DESC, holder
