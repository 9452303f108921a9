-- Who held the memory of each device at its peak: by category, by phase, by module and by op?
-- The rows of memory_peak summed by one of its columns at a time: those of a device and column add up to the peak.
--
-- Kind:     analysis
-- Scope:    run
-- Input:    memory_peak
-- Columns:
--   rank         INTEGER  global rank
--   device       VARCHAR  number of the device as its kernels have it, or cpu: the host
--   dimension    VARCHAR  category, phase, module, op or line
--   holder       VARCHAR  a value of it; (none) where nothing tells
--   block_count  BIGINT   blocks; NULL where they are not known
--   bytes        BIGINT   their size, bytes
--   peak_pct     DOUBLE   bytes of the peak of the device, in percent
-- Keep: rank, device, dimension, holder, bytes, peak_pct
-- Invariant: dimension IN ('category', 'phase', 'module', 'op', 'line')
-- Empty: no trace has events of an allocator with addresses

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
