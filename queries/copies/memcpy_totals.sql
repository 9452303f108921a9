-- What was copied or set on all devices of the run, which way, how much and how fast?
-- The sums of memcpy over all devices and kinds of memory; bandwidth is of those copies whose bytes the trace tells.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   memcpy
-- Input:    memcpy
-- Columns:
--   direction              VARCHAR  class: memcpy_h2d, memcpy_d2h, memcpy_d2d, memset
--   copy_count             BIGINT   copies
--   kernel_ns              BIGINT   sum of their durations, ns
--   wall_ns                BIGINT   busy time that is theirs, ns
--   bytes                  BIGINT   bytes moved, where known; NULL where not known for any
--   sized_count            BIGINT   copies whose bytes are known
--   sized_ns               BIGINT   sum of the durations of these, ns; NULL where the clock could tell of none
--   bandwidth_bytes_per_s  DOUBLE   bytes / sized_ns, bytes/s
-- View:
--   chart  name=memcpy form=bars title="What was copied or set, which way" y=direction order=rows x=kernel_ns
--          axis="time of all copies" colour=orange largest=kernel_ns
--          tip=direction,copy_count,kernel_ns,wall_ns,bytes,bandwidth_bytes_per_s
-- Invariant: sized_count <= copy_count AND (bytes IS NULL) = (sized_count = 0)
-- Invariant: sized_ns IS NULL OR sized_ns <= kernel_ns

SELECT
    direction,
    sum(copy_count)::BIGINT AS copy_count,
    sum(kernel_ns)::BIGINT AS kernel_ns,
    sum(wall_ns)::BIGINT AS wall_ns,
    sum(bytes)::BIGINT AS bytes,
    sum(sized_count)::BIGINT AS sized_count,
    sum(sized_ns)::BIGINT AS sized_ns,
    1e9 * sum(bytes)::BIGINT / sum(sized_ns)::BIGINT AS bandwidth_bytes_per_s
FROM memcpy
GROUP BY direction
ORDER BY sum(kernel_ns) DESC, direction
