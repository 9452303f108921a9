-- Consecutive intervals with the same label, joined: interval_runs('relation').
-- Intervals are consecutive even if there is a gap between them.
--
-- Kind:   function
-- Params:
--   relation  VARCHAR  relation with part, label, start_ns BIGINT, end_ns BIGINT, busy_ns BIGINT; disjoint per partition
-- Columns:
--   part      ANY
--   run       BIGINT  number within the partition, from 1
--   label     ANY     label of the intervals
--   start_ns  BIGINT  start of the first interval, ns
--   end_ns    BIGINT  end of the last interval, ns
--   busy_ns   BIGINT  sum of busy_ns of the intervals, ns

CREATE OR REPLACE MACRO interval_runs(relation) AS TABLE (
    WITH compared AS (
        SELECT
            part, label, start_ns, end_ns, busy_ns,
            row_number() OVER starts AS place,
            lag(label) OVER starts AS before
        FROM query_table(relation)
        WINDOW starts AS (PARTITION BY part ORDER BY start_ns)
    ),

    numbered AS (
        SELECT
            *,
            count(if(place = 1 OR before IS DISTINCT FROM label, 1, NULL)) OVER (
                PARTITION BY part ORDER BY start_ns ROWS UNBOUNDED PRECEDING
            ) AS run
        FROM compared
    )

    SELECT
        part, run,
        any_value(label) AS label,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        sum(busy_ns)::BIGINT AS busy_ns
    FROM numbered
    GROUP BY part, run
);
