-- Window expressions for adjacent intervals: previous end, gap, and next start.
-- Intervals are ordered by start, then id. To use several columns as `part` or `id`, write (a, b). The non-negative
-- gaps of a partition add up to the time that no interval covers.
--
-- Kind:   function
-- Params:
--   part      ANY     partition key
--   start_ns  BIGINT  start, ns
--   end_ns    BIGINT  end, ns; NULL to ignore the interval as a predecessor
--   id        ANY     tie-breaker for equal starts

-- Latest end of all previous intervals; NULL for the first interval.
CREATE OR REPLACE MACRO latest_end_before_ns(part, start_ns, end_ns, id) AS (
    max(end_ns) OVER (
        PARTITION BY part ORDER BY start_ns, id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
);

-- Time from that end to the start; negative if a previous interval is still open, NULL for the
-- first interval.
CREATE OR REPLACE MACRO gap_before_ns(part, start_ns, end_ns, id) AS (
    start_ns - latest_end_before_ns(part, start_ns, end_ns, id)
);

-- End of the previous interval, even if earlier intervals end later; NULL for the first interval.
CREATE OR REPLACE MACRO previous_end_ns(part, start_ns, end_ns, id) AS (
    lag(end_ns) OVER (PARTITION BY part ORDER BY start_ns, id)
);

-- Start of the next interval; NULL for the last interval.
CREATE OR REPLACE MACRO next_start_ns(part, start_ns, id) AS (
    lead(start_ns) OVER (PARTITION BY part ORDER BY start_ns, id)
);
