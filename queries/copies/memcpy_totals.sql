-- Copies and memsets by direction, summed over all devices.
--
-- Kind:     analysis
-- Scope:    run
-- Family:   memcpy per total
-- Input:    memcpy
-- Columns:
--   direction VARCHAR, copy_count BIGINT, kernel_ns BIGINT, wall_ns BIGINT
--   bytes                  BIGINT  sum of the known sizes, bytes; NULL if none is known
--   sized_count            BIGINT  number of copies with known size
--   sized_ns               BIGINT  sum of durations of copies with known size, ns; NULL if 0
--   bandwidth_bytes_per_s  DOUBLE  bytes / sized_ns, bytes/s
-- View:
--   chart  name=memcpy form=bars title="Copies and memsets by direction" y=direction order=rows x=kernel_ns
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
