-- Start of the part of an interval that no earlier interval covers.
-- An interval owns the time from the latest end of all previous intervals to its own end. Owned parts are disjoint and
-- add up to the union of all intervals.
--
-- Kind:     function
-- Params:
--   part      VARCHAR  partition key
--   start_ns  BIGINT   start, ns
--   end_ns    BIGINT   end, ns
--   id        BIGINT   tie-breaker for equal starts

CREATE OR REPLACE MACRO owned_from_ns(part, start_ns, end_ns, id) AS (
    greatest(start_ns, coalesce(latest_end_before_ns(part, start_ns, end_ns, id), start_ns))
);
