-- What lies before and behind an interval in its part: what ended, what begins next, and the gap between?
-- Window expressions. Intervals are in the order of their starts; id decides between equal ones. A part or an id of
-- several columns is written (a, b). Gaps before all intervals of a part that are not negative add up to the time
-- between its first start and its last end that no interval covers.
--
-- Kind:   function
-- Params:
--   part      ANY     intervals of different parts do not meet
--   start_ns  BIGINT  start, ns
--   end_ns    BIGINT  end, ns; NULL for an interval that nothing waits for
--   id        ANY     decides between equal starts

-- The latest end of all that started before; NULL for the first.
CREATE OR REPLACE MACRO latest_end_before_ns(part, start_ns, end_ns, id) AS (
    max(end_ns) OVER (
        PARTITION BY part ORDER BY start_ns, id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
);

-- From there to the start; negative where something still runs, NULL for the first.
CREATE OR REPLACE MACRO gap_before_ns(part, start_ns, end_ns, id) AS (
    start_ns - latest_end_before_ns(part, start_ns, end_ns, id)
);

-- The end of the one that started just before, though others may end later; NULL for the first.
CREATE OR REPLACE MACRO previous_end_ns(part, start_ns, end_ns, id) AS (
    lag(end_ns) OVER (PARTITION BY part ORDER BY start_ns, id)
);

-- The start of the one that starts next; NULL for the last.
CREATE OR REPLACE MACRO next_start_ns(part, start_ns, id) AS (
    lead(start_ns) OVER (PARTITION BY part ORDER BY start_ns, id)
);
