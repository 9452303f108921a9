-- Gaps between intervals of each partition, with the intervals around them: interval_gaps('relation').
-- Gap lengths add up to the window minus the union of the intervals. Cost: one sort per partition.
--
-- Kind:   function
-- Params:
--   relation  VARCHAR  relation with part, id BIGINT, start_ns BIGINT, end_ns BIGINT
-- Columns:
--   part         ANY
--   start_ns     BIGINT  start of the gap: the latest end of all previous intervals, ns
--   end_ns       BIGINT  end of the gap: the start of the next interval, ns
--   previous_id  BIGINT  interval that ends last before the gap
--   next_id      BIGINT  interval that starts first after the gap; of equal starts, the lowest id

CREATE OR REPLACE MACRO interval_gaps(relation) AS TABLE (
    WITH followed AS (
        SELECT
            part, id AS next_id, start_ns AS end_ns,
            max(end_ns) OVER earlier AS start_ns,
            arg_max(id, end_ns) OVER earlier AS previous_id
        FROM query_table(relation)
        WINDOW
            earlier AS (
                PARTITION BY part ORDER BY start_ns, id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
    )

    SELECT part, start_ns, end_ns, previous_id, next_id
    FROM followed
    WHERE end_ns > start_ns
);
