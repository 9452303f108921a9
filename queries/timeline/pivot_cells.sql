-- Busy and idle time for each device, step, phase, module, and class.
-- The rows add up to the windows of all devices. To keep pages small, one row, (smaller), combines the smallest cells.
-- `tracekit pivot` uses the complete view `work` instead.
--
-- Kind:     analysis
-- Scope:    run
-- Params:
--   cells  BIGINT = 900  number of largest cells with their own row; 0 for all
-- Columns:
--   rank    INTEGER
--   device  VARCHAR  device number, cpu, or (smaller)
--   step    BIGINT
--   phase   VARCHAR  phase, or (smaller)
--   module  VARCHAR  module path with layer numbers replaced by *, a row such as (optimizer) for work outside modules, or (smaller)
--   class   VARCHAR  kernel class, idle, or (smaller)
--   wall_ns BIGINT, idle_ns BIGINT, kernel_ns BIGINT, kernel_count BIGINT, bytes BIGINT
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
