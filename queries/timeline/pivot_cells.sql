-- What did the time of all devices go to, by device, step, phase, module and class at once?
-- The cells that a pivot sums: wall_ns and idle_ns of all rows add up to the windows of the devices. The smallest cells
-- are one row, (smaller), so that a page has room for any trace; tracekit pivot sums all of view work.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   cells  BIGINT = 900  cells of their own, the largest; 0 for all
-- Columns:
--   rank          INTEGER  global rank
--   device        VARCHAR  number of the device, or cpu; (smaller)
--   step          BIGINT   number of the step
--   phase         VARCHAR  phase, as in view work; (smaller)
--   module        VARCHAR  module with the numbers of layers replaced by *, or a row in parentheses; (smaller)
--   class         VARCHAR  class of the kernels, or idle; (smaller)
--   wall_ns       BIGINT   busy time, ns
--   idle_ns       BIGINT   idle time, ns
--   kernel_ns     BIGINT   sum of durations, ns
--   kernel_count  BIGINT   device events
--   bytes         BIGINT   bytes copied or set; NULL where the file does not tell
-- Invariant: wall_ns >= 0 AND idle_ns >= 0 AND wall_ns <= kernel_ns

WITH cells AS (
    SELECT
        rank, device, step, phase, module, class,
        sum(wall_ns)::BIGINT AS wall_ns,
        sum(idle_ns)::BIGINT AS idle_ns,
        sum(kernel_ns)::BIGINT AS kernel_ns,
        sum(kernel_count)::BIGINT AS kernel_count,
        sum(bytes)::BIGINT AS bytes,
        row_number() OVER (
            ORDER BY sum(wall_ns + idle_ns) DESC, rank, device, step, phase, module, class
        ) AS place
    FROM work
    GROUP BY rank, device, step, phase, module, class
),

folded AS (
    SELECT
        $cells > 0 AND place > $cells AS is_small,
        * EXCLUDE (place) REPLACE (
            if(is_small, NULL, rank) AS rank,
            if(is_small, '(smaller)', device) AS device,
            if(is_small, NULL, step) AS step,
            if(is_small, '(smaller)', phase) AS phase,
            if(is_small, '(smaller)', module) AS module,
            if(is_small, '(smaller)', class) AS class
        )
    FROM cells
)

SELECT
    rank, device, step, phase, module, class,
    sum(wall_ns)::BIGINT AS wall_ns,
    sum(idle_ns)::BIGINT AS idle_ns,
    sum(kernel_ns)::BIGINT AS kernel_ns,
    sum(kernel_count)::BIGINT AS kernel_count,
    sum(bytes)::BIGINT AS bytes
FROM folded
GROUP BY rank, device, step, phase, module, class
ORDER BY
    device = '(smaller)', sum(folded.wall_ns + folded.idle_ns) DESC,
    rank, device, step, phase, module, class
